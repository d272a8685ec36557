// SPDX-License-Identifier: Apache-2.0
// The CPU twins of the project's kernels: queued as those are.
#include <vector>

#include "engine/files/block_sum.h"
#include "tessera/number_arrays.h"
#include "tests/backends/cuda/stand_in/tables.h"

namespace tessera::test {
namespace {

Elements elements(const KernelArray& array) {
  const auto bytes = static_cast<std::size_t>(bytes_of(Numel{array.numel}, array.dtype).value);
  return {{static_cast<std::byte*>(array.at), bytes}, array.dtype};
}

using Arrays = std::vector<KernelArray>;

int launch(Call call, const char* name, const Arrays& reads, const Arrays& writes,
           CudaStream stream, std::function<void()> run) {
  return called(call, [&](StandIn& world) {
    std::vector<MemoryAccess> accesses;
    for (const KernelArray& a : reads) accesses.push_back({a.at, elements(a).bytes.size(), false});
    for (const KernelArray& a : writes) accesses.push_back({a.at, elements(a).bytes.size(), true});
    return world.enqueue(stream_of(stream), accesses, name, std::move(run));
  });
}

int cast_blocks(std::span<const BlockCast> casts, CudaStream stream) {
  std::vector<MemoryAccess> accesses;
  struct Block {
    std::span<const std::byte> from;
    std::span<std::byte> to;
    DType from_dtype, to_dtype;
  };
  std::vector<Block> blocks;
  const auto bytes = [](std::int64_t numel, DType dtype) {
    return static_cast<std::size_t>(bytes_of(Numel{numel}, dtype).value);
  };
  for (const auto& [to, from, shape] : casts) {
    for (std::int64_t k = 0; k < shape.count; ++k) {
      const auto* const source =
          static_cast<const std::byte*>(from) + bytes(shape.from_pitch * k, shape.from_dtype);
      auto* const target = static_cast<std::byte*>(to) + bytes(shape.to_pitch * k, shape.to_dtype);
      blocks.push_back({{source, bytes(shape.numel, shape.from_dtype)},
                        {target, bytes(shape.numel, shape.to_dtype)},
                        shape.from_dtype,
                        shape.to_dtype});
      accesses.push_back({source, blocks.back().from.size(), false});
      accesses.push_back({target, blocks.back().to.size(), true});
    }
  }
  return called(Call::cast_blocks, [&](StandIn& world) {
    return world.enqueue(stream_of(stream), accesses, "a cast", [blocks] {
      for (const Block& b : blocks) copy_numbers(b.from, b.from_dtype, b.to, b.to_dtype);
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
int adam(std::span<const AdamArrays> arrays, CudaStream stream) {
  std::vector<KernelArray> reads, writes;
  for (const AdamArrays& a : arrays) {
    reads.push_back(a.gradient);
    writes.insert(writes.end(), {a.values, a.exp_avg, a.exp_avg_sq});
  }
  return launch(Call::kernel, "adam", reads, writes, stream,
                [all = std::vector(arrays.begin(), arrays.end())] {
                  for (const AdamArrays& a : all) {
                    host_kernels().adam(a.numbers, elements(a.gradient), elements(a.values),
                                        elements(a.exp_avg), elements(a.exp_avg_sq));
                  }
                });
}
int add_norm(Norm norm, std::span<const KernelArray> values, float* one, void* workspace,
             CudaStream stream) {
  const KernelArray space{workspace, norm_workspace_bytes, DType::uint8};
  const KernelArray sum{one, 1, DType::float32};
  const std::vector all(values.begin(), values.end());
  return launch(Call::kernel, "add_norm", all, {sum, space}, stream, [=] {
    for (const KernelArray& a : all) host_kernels().add_norm(norm, elements(a), elements(sum));
  });
}
int clip(Norm norm, const float* one, float max_norm, std::span<const KernelArray> values,
         CudaStream stream) {
  const KernelArray sum{const_cast<float*>(one), 1, DType::float32};
  const std::vector all(values.begin(), values.end());
  return launch(Call::kernel, "clip", {sum}, all, stream, [=] {
    for (const KernelArray& a : all) {
      host_kernels().clip(norm, elements(sum), max_norm, elements(a));
    }
  });
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
