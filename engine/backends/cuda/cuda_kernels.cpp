// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/cuda_kernels.h"

#include <fmt/format.h>

#include <utility>

#include "engine/backends/cuda/calls.h"
#include "engine/numbers/number.h"

namespace tessera {
namespace {

KernelArray array(ConstElements elements) {
  auto* const at = const_cast<std::byte*>(elements.bytes.data());
  return {at, static_cast<std::int64_t>(elements.size()), elements.dtype};
}

// The one number that all norms are about.
float* number(ConstElements one) {
  TESSERA_ASSERT(one.dtype == DType::float32, "norms are float32");
  return reinterpret_cast<float*>(const_cast<std::byte*>(one.bytes.data()));
}

}  // namespace

bool CudaKernels::ready() {
  queue_kept();
  return status_.ok();
}

CudaKernels::Kept& CudaKernels::kept(Kind kind, Norm norm, float max_norm, float* one) {
  const bool same =
      kept_.kind == kind && kept_.norm == norm && kept_.max_norm == max_norm && kept_.one == one;
  if (!same) queue_kept();
  kept_.kind = kind;
  kept_.norm = norm;
  kept_.max_norm = max_norm;
  kept_.one = one;
  return kept_;
}

void CudaKernels::queue_kept() {
  const Kept now = std::exchange(kept_, {});
  if (!status_.ok()) return;
  switch (now.kind) {
    case Kind::none: return;
    case Kind::adam: return launched(api_.adam(now.adam, stream_), "adam");
    case Kind::add_norm:
      return launched(api_.add_norm(now.norm, now.values, now.one, workspace_, stream_),
                      "add_norm");
    case Kind::clip:
      return launched(api_.clip(now.norm, now.one, now.max_norm, now.values, stream_), "clip");
  }
}

void CudaKernels::launched(int code, const char* name) {
  launches_ += 2;  // a norm takes two
  if (code == cuda_success || !status_.ok()) return;
  status_ = cuda_status(device_.cuda, code, fmt::format("the kernel {}", name).c_str());
}

void CudaKernels::scale(ConstElements from, Elements to, float factor) {
  if (to.size() == 0 || !ready()) return;
  launched(api_.scale(array(from), array(to), factor, stream_), "scale");
}

void CudaKernels::divide(Elements values, float divisor) {
  if (values.size() == 0 || !ready()) return;
  launched(api_.divide(array(values), divisor, stream_), "divide");
}

void CudaKernels::add(ConstElements from, Elements into) {
  if (into.size() == 0 || !ready()) return;
  launched(api_.add(array(from), array(into), stream_), "add");
}

void CudaKernels::adam(const AdamNumbers& numbers, ConstElements gradient, Elements values,
                       Elements exp_avg, Elements exp_avg_sq) {
  if (values.size() == 0) return;
  ++launches_;
  kept(Kind::adam)
      .adam.push_back({numbers, array(gradient), array(values), array(exp_avg), array(exp_avg_sq)});
}

void CudaKernels::adam_in_halves(const AdamNumbers&, const RandomRounding&, ConstElements, Elements,
                                 Elements, Elements) {
  if (!status_.ok()) return;
  status_ = Status(Code::not_supported,
                   "moments in bfloat16 are stepped on CPUs only: keep them in float32");
}

void CudaKernels::add_norm(Norm norm, ConstElements values, Elements one) {
  if (values.size() == 0) return;
  ++launches_;
  kept(Kind::add_norm, norm, 0, number(one)).values.push_back(array(values));
}

void CudaKernels::clip(Norm norm, ConstElements sum, float max_norm, Elements values) {
  if (values.size() == 0) return;
  ++launches_;
  kept(Kind::clip, norm, max_norm, number(sum)).values.push_back(array(values));
}

void CudaKernels::unscale(Elements values, float factor, Elements found) {
  if (values.size() == 0 || !ready()) return;
  launched(api_.unscale(array(values), factor, array(found), stream_), "unscale");
}

void CudaKernels::quantize(const BlockFormat& format, ConstElements from,
                           std::span<const std::int64_t> rows, std::span<std::byte> codes,
                           Elements scales) {
  const std::size_t code_bytes = format.row * static_cast<std::size_t>(format.bits) / 8;
  const std::size_t blocks = (format.row + format.block - 1) / format.block;
  for (std::size_t r = 0; r < rows.size() && ready(); ++r) {
    const auto row = static_cast<std::size_t>(rows[r]);
    launched(api_.quantize(format, array(from.part(r * format.row, format.row)),
                           codes.subspan(row * code_bytes, code_bytes).data(),
                           array(scales.part(row * blocks, blocks)), stream_),
             "quantize");
  }
}

void CudaKernels::dequantize(const BlockFormat& format, std::span<const std::byte> codes,
                             ConstElements scales, Elements to) {
  if (to.size() == 0 || !ready()) return;
  launched(api_.dequantize(format, array({codes, DType::uint8}), array(scales), array(to), stream_),
           "dequantize");
}

bool CudaKernels::with_host() {
  if (ready() && device_.recorded) {
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
  if (from.empty() || !ready()) return;
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
  queue_kept();
  if (!uses_math_) device_.math->use(stream_);
  uses_math_ = true;
  return device_.math;
}

int CudaKernels::launches() const {
  return launches_ + (uses_math_ ? device_.math->calls() * DeviceMath::launches_max : 0);
}

Status CudaKernels::finish() {
  queue_kept();
  return status();
}

Status CudaKernels::status() const {
  if (!status_.ok() || !uses_math_) return status_;
  const DeviceMath::Failure failure = device_.math->failure();
  return cuda_status(device_.cuda, failure.code, failure.call);
}

}  // namespace tessera
