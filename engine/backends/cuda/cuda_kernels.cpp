// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/cuda_kernels.h"

#include <fmt/format.h>

#include <vector>

#include "engine/backends/cuda/calls.h"
#include "engine/numbers/number.h"

namespace tessera {
namespace {

KernelArray array(ConstElements elements) {
  auto* const at = const_cast<std::byte*>(elements.bytes.data());
  return {at, static_cast<std::int64_t>(elements.size()), elements.dtype};
}

}  // namespace

void CudaKernels::launched(int code, const char* name) {
  launches_ += 2;  // a norm takes two
  if (code == cuda_success || !status_.ok()) return;
  status_ = cuda_status(device_.cuda, code, fmt::format("the kernel {}", name).c_str());
}

void CudaKernels::scale(ConstElements from, Elements to, float factor) {
  if (!status_.ok() || to.size() == 0) return;
  launched(api_.scale(array(from), array(to), factor, stream_), "scale");
}

void CudaKernels::divide(Elements values, float divisor) {
  if (!status_.ok() || values.size() == 0) return;
  launched(api_.divide(array(values), divisor, stream_), "divide");
}

void CudaKernels::add(ConstElements from, Elements into) {
  if (!status_.ok() || into.size() == 0) return;
  launched(api_.add(array(from), array(into), stream_), "add");
}

void CudaKernels::adam(const AdamNumbers& numbers, ConstElements gradient, Elements values,
                       Elements exp_avg, Elements exp_avg_sq) {
  if (!status_.ok() || values.size() == 0) return;
  launched(api_.adam(numbers, array(gradient), array(values), array(exp_avg), array(exp_avg_sq),
                     stream_),
           "adam");
}

void CudaKernels::add_norm(Norm norm, ConstElements values, Elements one) {
  if (!status_.ok() || values.size() == 0) return;
  launched(api_.add_norm(norm, array(values), array(one), workspace_, stream_), "add_norm");
}

void CudaKernels::clip(Norm norm, ConstElements sum, float max_norm, Elements values) {
  if (!status_.ok() || values.size() == 0) return;
  launched(api_.clip(norm, array(sum), max_norm, array(values), stream_), "clip");
}

void CudaKernels::unscale(Elements values, float factor, Elements found) {
  if (!status_.ok() || values.size() == 0) return;
  launched(api_.unscale(array(values), factor, array(found), stream_), "unscale");
}

void CudaKernels::quantize(const BlockFormat& format, ConstElements from,
                           std::span<const std::int64_t> rows, std::span<std::byte> codes,
                           Elements scales) {
  const std::size_t code_bytes = format.row * static_cast<std::size_t>(format.bits) / 8;
  const std::size_t blocks = (format.row + format.block - 1) / format.block;
  for (std::size_t r = 0; r < rows.size() && status_.ok(); ++r) {
    const auto row = static_cast<std::size_t>(rows[r]);
    launched(api_.quantize(format, array(from.part(r * format.row, format.row)),
                           codes.subspan(row * code_bytes, code_bytes).data(),
                           array(scales.part(row * blocks, blocks)), stream_),
             "quantize");
  }
}

void CudaKernels::dequantize(const BlockFormat& format, std::span<const std::byte> codes,
                             ConstElements scales, Elements to) {
  if (!status_.ok() || to.size() == 0) return;
  launched(api_.dequantize(format, array({codes, DType::uint8}), array(scales), array(to), stream_),
           "dequantize");
}

bool CudaKernels::with_host() {
  if (status_.ok() && device_.recorded) {
    status_ = Status(Code::invalid_argument,
                     "a computation that says it repeats (Compute::repeated) exchanges numbers "
                     "with the host: its graph would be launched without them");
  }
  return status_.ok();
}

void CudaKernels::read(ConstElements from, std::span<float> to) {
  if (to.empty() || !with_host()) return;
  std::vector<std::byte> numbers(from.bytes.size());
  status_ = to_host_(from.bytes, numbers);
  if (!status_.ok()) return;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = load_number(numbers, from.dtype, i);
}

void CudaKernels::write(std::span<const float> from, Elements to) {
  if (!status_.ok() || from.empty()) return;
  std::vector<std::byte> numbers(to.bytes.size());
  for (std::size_t i = 0; i < from.size(); ++i) store_number(numbers, to.dtype, i, from[i]);
  send(numbers, to.bytes);
}

void CudaKernels::send(std::span<const std::byte> from, std::span<std::byte> to) {
  launches_ += 2;
  if (!from.empty() && with_host()) status_ = device_.mailbox.send(from, to, stream_);
}

void CudaKernels::receive(std::span<const std::byte> from, Mailbox::Then then) {
  launches_ += 2;
  if (with_host()) status_ = device_.mailbox.receive(from, std::move(then), stream_);
}

kernels::Math* CudaKernels::math() {
  if (!uses_math_) device_.math->use(stream_);
  uses_math_ = true;
  return device_.math;
}

int CudaKernels::launches() const {
  return launches_ + (uses_math_ ? device_.math->calls() * DeviceMath::launches_max : 0);
}

Status CudaKernels::status() const {
  if (!status_.ok() || !uses_math_) return status_;
  const DeviceMath::Failure failure = device_.math->failure();
  return cuda_status(device_.cuda, failure.code, failure.call);
}

}  // namespace tessera
