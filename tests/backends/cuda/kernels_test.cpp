// SPDX-License-Identifier: Apache-2.0
// Kernels that a body calls on a GPU do what those of the host do.
#include "tests/backends/cuda/cuda_ranks.h"

namespace tessera {
namespace {

constexpr std::size_t numel = 8;

std::span<std::byte> bytes_of(std::vector<float>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

Elements row(const Elements& all, std::size_t k) {
  return {all.bytes.subspan(k * numel * sizeof(float), numel * sizeof(float)), all.dtype};
}

// Arrays of a body: its first view is cut into them.
struct Arrays {
  Elements a, b, c, one, back, scales;
  std::span<std::byte> codes;

  explicit Arrays(std::span<std::byte> memory) {
    const Elements all{memory, DType::float32};
    a = row(all, 0);
    b = row(all, 1);
    c = row(all, 2);
    back = row(all, 3);
    one = Elements{row(all, 4).bytes.first(4), DType::float32};
    scales = Elements{row(all, 5).bytes.first(8), DType::float32};
    codes = row(all, 6).bytes.first(numel);
  }
  static constexpr std::size_t count = 7 * numel;
};

void use_all(Kernels& kernels, const Arrays& x) {
  const AdamNumbers adam{.learning_rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
  kernels.write(std::vector<float>{1, -2, 3, -4, 5, -6, 7, -8}, x.a);
  kernels.scale(x.a, x.b, 0.25F);
  kernels.scale(x.a, x.c, 0);
  kernels.scale(x.a, x.back, 0);
  kernels.adam(adam, x.a, x.b, x.c, x.back);
  kernels.write(std::vector<float>{0}, x.one);
  kernels.add_norm(Norm::l2, x.b, x.one);
  kernels.clip(Norm::l2, x.one, 0.5F, x.b);
  const std::int64_t rows[] = {1, 0};
  const BlockFormat format{.bits = 8, .row = numel / 2, .block = numel / 2};
  kernels.quantize(format, x.b, rows, x.codes, x.scales);
  kernels.dequantize(format, x.codes, x.scales, x.back);
  kernels.write(std::vector<float>{1e38F}, x.one);
  kernels.unscale(x.c, 2, x.one);
  kernels.divide(x.c, 3);
  kernels.add(x.b, x.c);
}

TEST_CASE("kernels on a GPU do what the host's do", "[cuda]") {
  std::vector<float> expected(Arrays::count);
  use_all(host_kernels(), Arrays(bytes_of(expected)));
  std::vector<float> real(Arrays::count);
  test::require_clean(test::run_on_gpus({.seed = 3}, [&](ProcessRuntime& host, Rank) -> Status {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const StreamId stream, runtime.create_stream("one", StreamRole::compute));
    const Numel all{Arrays::count};
    TESSERA_ASSIGN(const BufferId buffer, runtime.allocate({.bytes = bytes_of(all, DType::float32),
                                                            .stream = stream,
                                                            .where = runtime.world(),
                                                            .name = "numbers"}));
    const View view = View::whole(buffer, DType::float32, all);
    const auto body = [&](const BodyContext& context) {
      use_all(context.kernels(), Arrays(context.write(0)));
      context.kernels().read({context.write(0), DType::float32}, real);
    };
    TESSERA_ASSIGN(
        const EventId done,
        runtime.submit({.stream = stream,
                        .where = runtime.world(),
                        .what = Compute{.writes = {view}, .body = body, .zeroed = {0}}}));
    TESSERA_TRY(runtime.wait(done));
    return host.finish();
  }));
  CHECK(real == expected);
}

}  // namespace
}  // namespace tessera
