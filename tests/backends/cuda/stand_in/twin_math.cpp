// SPDX-License-Identifier: Apache-2.0
// The twin of a device's mathematics: HostMath, queued as kernels are.
#include <bit>
#include <cstring>

#include "tests/backends/cuda/stand_in/product_rules.h"
#include "tests/backends/cuda/stand_in/stand_in.h"
#include "tests/backends/cuda/stand_in/tables.h"
#include "training/kernels/host_math.h"

namespace tessera::test {
namespace {

using kernels::Array;
using kernels::AttentionMemory;
using kernels::AttentionOut;
using kernels::AttentionShape;
using kernels::ColumnGradient;
using kernels::ConstArray;
using kernels::HeadArrays;
using kernels::HostMath;
using kernels::MatmulShape;
using kernels::NormGradients;
using kernels::NormShape;
using kernels::Positions;
using kernels::RotaryRows;
using kernels::StoredRows;
using kernels::TokenRows;

std::size_t bytes(std::int64_t numel, DType dtype) {
  return static_cast<std::size_t>(bytes_of(Numel{numel}, dtype).value);
}

// Rounded to the nearest, as tensor cores do with operands.
std::vector<float> in_tf32(const void* values, std::int64_t numel) {
  std::vector<float> rounded(static_cast<std::size_t>(numel));
  std::memcpy(rounded.data(), values, rounded.size() * sizeof(float));
  for (float& value : rounded) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    value = std::bit_cast<float>((bits + 0xfff + ((bits >> 13) & 1)) & ~std::uint32_t{0x1fff});
  }
  return rounded;
}

// Computes when its turn comes, with memory of its own.
HostMath& host() {
  static HostMath math(1, HostMath::Memory::own);
  return math;
}

struct Accesses {
  std::vector<MemoryAccess> all;

  Accesses& reads(const void* at, std::int64_t numel, DType dtype = DType::float32) {
    if (at != nullptr) all.push_back({at, bytes(numel, dtype), false});
    return *this;
  }
  Accesses& reads(ConstArray array, std::int64_t numel) {
    return reads(array.data, numel, array.dtype);
  }
  Accesses& writes(void* at, std::int64_t numel, DType dtype = DType::float32) {
    if (at != nullptr) all.push_back({at, bytes(numel, dtype), true});
    return *this;
  }
  Accesses& writes(Array array, std::int64_t numel) {
    return writes(array.data, numel, array.dtype);
  }
  Accesses& sums(const ColumnGradient& to, std::int64_t width) {
    if (to.gradient.data == nullptr) return *this;
    return writes(to.gradient, width).writes(to.sums, width).writes(to.scratch, 1, DType::uint8);
  }
};

class TwinMath final : public DeviceMath {
 public:
  explicit TwinMath(bool tf32) : tf32_(tf32) {}
  void use(CudaStream stream) override {
    stream_ = reinterpret_cast<FakeStream*>(stream);
    failure_ = {};
    calls_ = 0;
  }
  Failure failure() const override { return failure_; }
  int calls() const override { return calls_; }

  void clear(Array values, std::int64_t numel) override {
    queue("clear", Accesses().writes(values, numel), [=] { host().clear(values, numel); });
  }
  void convert(ConstArray from, Array to, std::int64_t numel) override {
    queue("convert", Accesses().reads(from, numel).writes(to, numel),
          [=] { host().convert(from, to, numel); });
  }
  void accumulate(const float* from, Array to, std::int64_t numel) override {
    queue("accumulate", Accesses().reads(from, numel).writes(to, numel),
          [=] { host().accumulate(from, to, numel); });
  }
  void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) override {
    queue("multiply", Accesses().reads(a, numel).reads(b, numel).writes(to, numel),
          [=] { host().multiply(a, b, to, numel); });
  }
  void scale(Array values, float factor, std::int64_t numel) override {
    queue("scale", Accesses().writes(values, numel), [=] { host().scale(values, factor, numel); });
  }
  void add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                       const ColumnGradient& to) override {
    if (to.gradient.data == nullptr) return;
    queue("add_column_sums", Accesses().reads(from, rows * width).sums(to, width),
          [=] { host().add_column_sums(from, rows, width, to); });
  }
  void convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                    const ColumnGradient& sums) override {
    const std::int64_t all = rows * width;
    queue("convert_rows", Accesses().reads(from, all).writes(to, all).sums(sums, width),
          [=] { host().convert_rows(from, to, rows, width, sums); });
  }
  void multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows, std::int64_t width,
                     const ColumnGradient& sums) override {
    const std::int64_t all = rows * width;
    queue("multiply_rows", Accesses().reads(a, all).reads(b, all).writes(to, all).sums(sums, width),
          [=] { host().multiply_rows(a, b, to, rows, width, sums); });
  }
  void mean(const float* values, std::int64_t numel, float* to) override {
    queue("mean", Accesses().reads(values, numel).writes(to, 1),
          [=] { host().mean(values, numel, to); });
  }
  // Of the table only what the ids say is read, but those are on the device.
  void gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width, float* x) override {
    queue("gather_rows", of(rows).reads(table, 1).writes(x, rows.count * width),
          [=] { host().gather_rows(table, rows, width, x); });
  }
  void scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width,
                    Array gradient) override {
    queue("scatter_rows", of(rows).reads(dx, rows.count * width).writes(gradient, 1),
          [=] { host().scatter_rows(dx, rows, width, gradient); });
  }
  void add_positions(ConstArray table, const Positions& s, float* x) override {
    queue("add_positions",
          Accesses().reads(table, s.length * s.width).writes(x, s.batch * s.length * s.width),
          [=] { host().add_positions(table, s, x); });
  }
  void sum_positions(const float* dx, const Positions& s, Array gradient) override {
    queue("sum_positions",
          Accesses().reads(dx, s.batch * s.length * s.width).writes(gradient, s.length * s.width),
          [=] { host().sum_positions(dx, s, gradient); });
  }
  void norm_forward(const NormShape& s, const float* x, ConstArray weight, ConstArray bias, Array y,
                    Array normal, float* reciprocal) override {
    const std::int64_t all = s.rows * s.width;
    queue("norm_forward",
          Accesses()
              .reads(x, all)
              .reads(weight, s.width)
              .reads(bias, s.width)
              .writes(y, all)
              .writes(normal, all)
              .writes(reciprocal, s.rows),
          [=] { host().norm_forward(s, x, weight, bias, y, normal, reciprocal); });
  }
  void norm_backward(const NormShape& s, const float* dy, ConstArray weight, ConstArray normal,
                     const float* reciprocal, float* dx, const NormGradients& to) override {
    const std::int64_t all = s.rows * s.width;
    queue("norm_backward",
          Accesses()
              .reads(dy, all)
              .reads(weight, s.width)
              .reads(normal, all)
              .reads(reciprocal, s.rows)
              .writes(dx, all)
              .writes(to.weight, s.width)
              .writes(to.bias, s.width)
              .writes(to.sums, 2 * s.width)
              .writes(to.scratch, 1, DType::uint8),
          [=] { host().norm_backward(s, dy, weight, normal, reciprocal, dx, to); });
  }
  void activate(Activation kind, Array x, Array y, std::int64_t numel) override {
    queue("activate", Accesses().writes(x, numel).writes(y, numel),
          [=] { host().activate(kind, x, y, numel); });
  }
  void activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel) override {
    queue("activate_gated", Accesses().writes(gate, numel).writes(up, numel).writes(y, numel),
          [=] { host().activate_gated(kind, gate, up, y, numel); });
  }
  void rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads,
              bool inverse) override {
    const std::int64_t angles = table.length * table.half;
    queue("rotate",
          Accesses()
              .reads(table.cosine, angles)
              .reads(table.sine, angles)
              .writes(x, rows * heads * 2 * table.half),
          [=] { host().rotate(table, x, rows, heads, inverse); });
  }
  void cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                     float scale, Array gradient, float* losses) override {
    queue("cross_entropy",
          Accesses()
              .reads(logits, rows.extent())
              .reads(targets, rows.count, DType::int32)
              .writes(gradient, rows.extent())
              .writes(losses, rows.count),
          [=] { host().cross_entropy(rows, logits, targets, scale, gradient, losses); });
  }
  void product(const MatmulShape& s, const void* a, const void* b, void* c, ConstArray bias,
               void* scratch) override {
    // A bias that is not as the library wants it is converted before (KernelMath).
    kernels::MatmulShape plain = s;
    plain.bias = false;
    device::ProductOperands given{a, b, c, bias, scratch};
    Bytes scratch_bytes{1};  // which stand for all of it
    if (s.fp8 != kernels::Fp8::none) {
      const kernels::Fp8Operands places(s);
      given = device::Fp8Memory(places, scratch).operands(given);
      scratch_bytes = kernels::device_scratch_bytes + places.bytes();
    }
    if (const std::string rule = broken_rule(plain, given); !rule.empty()) {
      return refuse("a product of which " + rule);
    }
    const std::int64_t in_a = s.a_rows().extent();
    const std::int64_t in_b = s.b_rows().extent();
    queue("a product",
          Accesses()
              .reads(a, in_a, s.input)
              .reads(b, in_b, s.input)
              .reads(bias, s.n)
              .writes(c, s.c_rows().extent(), s.output)
              .writes(scratch, scratch_bytes.value, DType::uint8),
          [=, tf32 = tf32_ && s.input == DType::float32 && s.fp8 == kernels::Fp8::none] {
            if (!tf32) return host().product(s, a, b, c, bias, nullptr);
            host().product(s, in_tf32(a, in_a).data(), in_tf32(b, in_b).data(), c, bias, nullptr);
          });
  }
  void attention_forward(const AttentionShape& s, const HeadArrays<ConstArray>& in, Array out,
                         float* statistics, const AttentionMemory&) override {
    queue("attention",
          heads(s, in)
              .writes(out, s.batch * s.length * s.out_stride())
              .writes(statistics, 2 * s.rows()),
          [=] { host().attention_forward(s, in, out, statistics, {}); });
  }
  void attention_backward(const AttentionShape& s, const HeadArrays<ConstArray>& in,
                          const AttentionOut& out, const float* statistics,
                          const HeadArrays<Array>& gradients,
                          const AttentionMemory& memory) override {
    const std::int64_t all = s.batch * s.length * s.out_stride();
    Accesses accesses = heads(s, in);
    accesses.reads(out.values, all).reads(out.gradient, all).reads(statistics, 2 * s.rows());
    accesses.writes(static_cast<float*>(memory.temporary), s.rows());
    accesses.writes(gradients.q, extent_of(s, s.q_stride, s.heads));
    accesses.writes(gradients.k, extent_of(s, s.kv_stride, s.kv_heads));
    accesses.writes(gradients.v, extent_of(s, s.kv_stride, s.kv_heads));
    queue("attention's gradient", accesses,
          [=] { host().attention_backward(s, in, out, statistics, gradients, {}); });
  }

 private:
  const bool tf32_;
  static Accesses of(const TokenRows& rows) {
    return Accesses()
        .reads(rows.ids, rows.count, DType::int32)
        .reads(rows.by_id, rows.count, DType::int32);
  }
  static std::int64_t extent_of(const AttentionShape& s, std::int64_t stride, std::int64_t heads) {
    return (s.batch * s.length - 1) * stride + heads * s.head_dim;
  }
  static Accesses heads(const AttentionShape& s, const HeadArrays<ConstArray>& in) {
    return Accesses()
        .reads(in.q, extent_of(s, s.q_stride, s.heads))
        .reads(in.k, extent_of(s, s.kv_stride, s.kv_heads))
        .reads(in.v, extent_of(s, s.kv_stride, s.kv_heads));
  }

  void refuse(const std::string& what) {
    constexpr int invalid_value = 1;  // cudaErrorInvalidValue, as CUBLAS_STATUS_INVALID_VALUE
    StandIn::current().report(what);
    if (failure_.code == cuda_success) failure_ = {invalid_value, "a product"};
  }

  void queue(const char* name, const Accesses& accesses, std::function<void()> run) {
    if (failure_.code != cuda_success) return;
    ++calls_;
    StandIn& world = StandIn::current();
    const StandIn::Verdict verdict = world.enter(Call::kernel);
    int code = verdict.code;
    if (code == 0 && !verdict.dropped) {
      code = world.enqueue(stream_, accesses.all, name, std::move(run));
    }
    if (code != 0) failure_ = {code, name};
  }

  FakeStream* stream_ = nullptr;
  Failure failure_;
  int calls_ = 0;
};

}  // namespace

// On the CPU there is one attention.
std::unique_ptr<DeviceMath> make_twin_math(const MathOptions& options) {
  return std::make_unique<TwinMath>(options.tf32);
}

}  // namespace tessera::test
