// SPDX-License-Identifier: Apache-2.0
// AdamW and clipping for all parameters of a call at once, with the bits of the CPU:
// engine/numbers/host_kernels.cpp.
#include "engine/backends/cuda/module/batch.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

constexpr int own_pack = 4;

template <class G, class V>
struct AdamItem {
  AdamNumbers numbers;
  bool packs;
  const G* gradient;
  V *values, *exp_avg, *exp_avg_sq;
  std::int64_t numel;
};

template <int n, class G, class V>
__device__ void adam_part(const AdamItem<G, V>& item, std::int64_t begin, std::int64_t end) {
  const AdamNumbers a = item.numbers;
  const float keep = 1 - a.learning_rate * a.weight_decay;
  for (std::int64_t i = begin + threadIdx.x * n; i < end; i += threads * n) {
    const auto gradient = load_pack<G, n>(item.gradient + i);
    auto values = load_pack<V, n>(item.values + i);
    auto exp_avg = load_pack<V, n>(item.exp_avg + i);
    auto exp_avg_sq = load_pack<V, n>(item.exp_avg_sq + i);
    for (int k = 0; k < n; ++k) {
      const float g = load(gradient.at[k]);
      const float m = a.beta1 * load(exp_avg.at[k]) + (1 - a.beta1) * g;
      const float v = a.beta2 * load(exp_avg_sq.at[k]) + (1 - a.beta2) * g * g;
      const float denominator = sqrtf(v / a.correction2) + a.epsilon;
      store(values.at[k],
            load(values.at[k]) * keep - a.learning_rate * (m / a.correction1) / denominator);
      store(exp_avg.at[k], m);
      store(exp_avg_sq.at[k], v);
    }
    store_pack(item.values + i, values);
    store_pack(item.exp_avg + i, exp_avg);
    store_pack(item.exp_avg_sq + i, exp_avg_sq);
  }
}

// What the block has of its item.
struct Part {
  int item;
  std::int64_t begin, end;

  template <class Item>
  __device__ explicit Part(const Batch<Item>& batch)
      : item(batch.own()), begin((blockIdx.x - batch.begins[item]) * batch_part) {
    const std::int64_t numel = batch.items[item].numel;
    end = begin + batch_part < numel ? begin + batch_part : numel;
  }
};

template <class G, class V>
__global__ void adam_kernel(const __grid_constant__ Batch<AdamItem<G, V>> batch) {
  const Part part(batch);
  const AdamItem<G, V>& item = batch.items[part.item];
  if (item.packs) {
    adam_part<own_pack>(item, part.begin, part.end);
  } else {
    adam_part<1>(item, part.begin, part.end);
  }
}

template <class T>
struct ClipItem {
  T* values;
  std::int64_t numel;
  bool packs;
};

template <int n, class T>
__device__ void scale_part(T* values, float factor, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin + threadIdx.x * n; i < end; i += threads * n) {
    auto scaled = load_pack<T, n>(values + i);
    for (int k = 0; k < n; ++k) store(scaled.at[k], load(scaled.at[k]) * factor);
    store_pack(values + i, scaled);
  }
}

template <class T>
__global__ void clip_kernel(Norm norm, const float* sum, float max_norm,
                            const __grid_constant__ Batch<ClipItem<T>> batch) {
  constexpr float epsilon = 1e-6F;  // torch.nn.utils.clip_grad_norm_
  const float factor = max_norm / ((norm == Norm::l2 ? sqrtf(*sum) : *sum) + epsilon);
  if (!(factor < 1)) return;
  const Part part(batch);
  const ClipItem<T>& item = batch.items[part.item];
  if (item.packs) {
    scale_part<own_pack>(item.values, factor, part.begin, part.end);
  } else {
    scale_part<1>(item.values, factor, part.begin, part.end);
  }
}

template <class... At>
bool fit_packs(std::int64_t numel, const At*... at) {
  return numel % own_pack == 0 && (is_aligned(at, own_pack) && ...);
}

template <class G, class V>
int adam_of(std::span<const AdamArrays> all, CudaStream stream) {
  Batcher<AdamItem<G, V>> batcher([&](const Batch<AdamItem<G, V>>& batch, unsigned blocks) {
    return launch(adam_kernel<G, V>, {dim3(blocks)}, stream, batch);
  });
  for (const AdamArrays& one : all) {
    AdamItem<G, V> item{.numbers = one.numbers,
                        .packs = false,
                        .gradient = static_cast<const G*>(one.gradient.at),
                        .values = static_cast<V*>(one.values.at),
                        .exp_avg = static_cast<V*>(one.exp_avg.at),
                        .exp_avg_sq = static_cast<V*>(one.exp_avg_sq.at),
                        .numel = one.values.numel};
    item.packs = fit_packs(item.numel, item.gradient, item.values, item.exp_avg, item.exp_avg_sq);
    batcher.add(item, batch_blocks(item.numel));
  }
  return batcher.flush();
}

}  // namespace

int adam(std::span<const AdamArrays> arrays, CudaStream stream) {
  const auto same = [](const AdamArrays& a, const AdamArrays& b) {
    return a.gradient.dtype == b.gradient.dtype && a.values.dtype == b.values.dtype;
  };
  return for_runs(arrays, same, [&](std::span<const AdamArrays> run) {
    return typed_launch(run[0].gradient.dtype, [&]<class G>(G*) {
      return typed_launch(run[0].values.dtype,
                          [&]<class V>(V*) { return adam_of<G, V>(run, stream); });
    });
  });
}

int clip(Norm norm, const float* sum, float max_norm, std::span<const KernelArray> values,
         CudaStream stream) {
  const auto same = [](const KernelArray& a, const KernelArray& b) { return a.dtype == b.dtype; };
  return for_runs(values, same, [&](std::span<const KernelArray> run) {
    return typed_launch(run[0].dtype, [&]<class T>(T*) {
      Batcher<ClipItem<T>> batcher([&](const Batch<ClipItem<T>>& batch, unsigned blocks) {
        return launch(clip_kernel<T>, {dim3(blocks)}, stream, norm, sum, max_norm, batch);
      });
      for (const KernelArray& one : run) {
        auto* const at = static_cast<T*>(one.at);
        batcher.add({at, one.numel, fit_packs(one.numel, at)}, batch_blocks(one.numel));
      }
      return batcher.flush();
    });
  });
}

}  // namespace tessera::device
