// SPDX-License-Identifier: Apache-2.0
// The CPU twins of the project's kernels: queued as those are.
#include <initializer_list>

#include "engine/files/block_sum.h"
#include "tessera/number_arrays.h"
#include "tests/backends/cuda/stand_in/tables.h"

namespace tessera::test {
namespace {

Elements elements(const KernelArray& array) {
  const auto bytes = static_cast<std::size_t>(bytes_of(Numel{array.numel}, array.dtype).value);
  return {{static_cast<std::byte*>(array.at), bytes}, array.dtype};
}

using Arrays = std::initializer_list<KernelArray>;

int launch(Call call, const char* name, Arrays reads, Arrays writes, CudaStream stream,
           std::function<void()> run) {
  return called(call, [&](StandIn& world) {
    std::vector<MemoryAccess> accesses;
    for (const KernelArray& a : reads) accesses.push_back({a.at, elements(a).bytes.size(), false});
    for (const KernelArray& a : writes) accesses.push_back({a.at, elements(a).bytes.size(), true});
    return world.enqueue(stream_of(stream), accesses, name, std::move(run));
  });
}

int cast_blocks(void* to, const void* from, const BlockCopy& shape, CudaStream stream) {
  std::vector<MemoryAccess> accesses;
  struct Block {
    std::span<const std::byte> from;
    std::span<std::byte> to;
  };
  std::vector<Block> blocks;
  const auto bytes = [](std::int64_t numel, DType dtype) {
    return static_cast<std::size_t>(bytes_of(Numel{numel}, dtype).value);
  };
  for (std::int64_t k = 0; k < shape.count; ++k) {
    const auto* const source =
        static_cast<const std::byte*>(from) + bytes(shape.from_pitch * k, shape.from_dtype);
    auto* const target = static_cast<std::byte*>(to) + bytes(shape.to_pitch * k, shape.to_dtype);
    blocks.push_back({{source, bytes(shape.numel, shape.from_dtype)},
                      {target, bytes(shape.numel, shape.to_dtype)}});
    accesses.push_back({source, blocks.back().from.size(), false});
    accesses.push_back({target, blocks.back().to.size(), true});
  }
  return called(Call::cast_blocks, [&](StandIn& world) {
    return world.enqueue(stream_of(stream), accesses, "a cast", [blocks, shape] {
      for (const Block& b : blocks) copy_numbers(b.from, shape.from_dtype, b.to, shape.to_dtype);
    });
  });
}

int scale(KernelArray from, KernelArray to, float factor, CudaStream stream) {
  return launch(Call::kernel, "scale", {from}, {to}, stream,
                [=] { host_kernels().scale(elements(from), elements(to), factor); });
}
int divide(KernelArray values, float divisor, CudaStream stream) {
  return launch(Call::kernel, "divide", {}, {values}, stream,
                [=] { host_kernels().divide(elements(values), divisor); });
}
int add(KernelArray from, KernelArray into, CudaStream stream) {
  return launch(Call::kernel, "add", {from}, {into}, stream,
                [=] { host_kernels().add(elements(from), elements(into)); });
}
int adam(const AdamNumbers& numbers, KernelArray gradient, KernelArray values, KernelArray exp_avg,
         KernelArray exp_avg_sq, CudaStream stream) {
  return launch(Call::kernel, "adam", {gradient}, {values, exp_avg, exp_avg_sq}, stream, [=] {
    host_kernels().adam(numbers, elements(gradient), elements(values), elements(exp_avg),
                        elements(exp_avg_sq));
  });
}
int add_norm(Norm norm, KernelArray values, KernelArray one, void* workspace, CudaStream stream) {
  const KernelArray space{workspace, norm_workspace_bytes, DType::uint8};
  return launch(Call::kernel, "add_norm", {values}, {one, space}, stream,
                [=] { host_kernels().add_norm(norm, elements(values), elements(one)); });
}
int clip(Norm norm, KernelArray sum, float max_norm, KernelArray values, CudaStream stream) {
  return launch(Call::kernel, "clip", {sum}, {values}, stream,
                [=] { host_kernels().clip(norm, elements(sum), max_norm, elements(values)); });
}
int unscale(KernelArray values, float factor, KernelArray found, CudaStream stream) {
  return launch(Call::kernel, "unscale", {}, {values, found}, stream,
                [=] { host_kernels().unscale(elements(values), factor, elements(found)); });
}
int quantize(const BlockFormat& format, KernelArray from, void* codes, KernelArray scales,
             CudaStream stream) {
  const auto bytes = static_cast<std::int64_t>(format.row) * format.bits / 8;
  const KernelArray target{codes, bytes, DType::uint8};
  return launch(Call::kernel, "quantize", {from}, {target, scales}, stream, [=] {
    constexpr std::int64_t row = 0;
    host_kernels().quantize(format, elements(from), {&row, 1}, elements(target).bytes,
                            elements(scales));
  });
}
int dequantize(const BlockFormat& format, KernelArray codes, KernelArray scales, KernelArray to,
               CudaStream stream) {
  return launch(Call::kernel, "dequantize", {codes, scales}, {to}, stream, [=] {
    host_kernels().dequantize(format, elements(codes).bytes, elements(scales), elements(to));
  });
}

int block_sums(const void* data, std::size_t bytes, std::size_t block, std::uint64_t* sums,
               CudaStream stream) {
  const std::size_t blocks = (bytes + block - 1) / block;
  return called(Call::block_sums, [&](StandIn& world) {
    const std::span all(static_cast<const std::byte*>(data), bytes);
    return world.enqueue(stream_of(stream),
                         {{data, bytes, false}, {sums, blocks * sizeof(*sums), true}}, "checksums",
                         [=] {
                           for (std::size_t b = 0; b < blocks; ++b) {
                             const std::size_t size = std::min(block, bytes - b * block);
                             sums[b] = block_sum(all.subspan(b * block, size));
                           }
                         });
  });
}

}  // namespace

KernelApi kernel_table() {
  return {cast_blocks, scale,   divide,   add,        adam,      add_norm,
          clip,        unscale, quantize, dequantize, block_sums};
}

}  // namespace tessera::test
