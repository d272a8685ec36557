// SPDX-License-Identifier: Apache-2.0
// The kernels of language models: each is what kernels::Math says of the function of its name, or
// KernelApi, and returns a CUDA error code.
#pragma once

#include "engine/backends/cuda/cuda_api.h"
#include "engine/backends/cuda/kernel_api.h"
#include "engine/math/fp8_operands.h"
#include "tessera/activation.h"
#include "tessera/math_shapes.h"

namespace tessera::device {

using kernels::Array;
using kernels::AttentionOut;
using kernels::AttentionShape;
using kernels::ColumnGradient;
using kernels::ConstArray;
using kernels::HeadArrays;
using kernels::NormGradients;
using kernels::NormShape;
using kernels::Positions;
using kernels::RotaryRows;
using kernels::StoredRows;
using kernels::TokenRows;

// elements.cu
int convert(ConstArray from, Array to, std::int64_t numel, CudaStream stream);
int accumulate(const float* from, Array to, std::int64_t numel, CudaStream stream);
int multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel, CudaStream stream);
int scale(Array values, float factor, std::int64_t numel, CudaStream stream);
int activate(Activation kind, Array x, Array y, std::int64_t numel, CudaStream stream);
int activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel,
                   CudaStream stream);
int rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads, bool inverse,
           CudaStream stream);

// add_norm.cu; workspace: norm_workspace_bytes
int add_norm(Norm norm, std::span<const KernelArray> values, float* one, void* workspace,
             CudaStream stream);

// casts.cu
int cast_blocks(std::span<const BlockCast> casts, CudaStream stream);

// column_sums.cu
int add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                    const ColumnGradient& to, CudaStream stream);
int convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                 const ColumnGradient& sums, CudaStream stream);
int multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows, std::int64_t width,
                  const ColumnGradient& sums, CudaStream stream);

// fp8.cu: a matrix as it lies in memory becomes an operand; `down`: a row of codes is a column of
// it
int to_fp8(const StoredRows& rows, ConstArray from, bool down, const kernels::Fp8Operand& operand,
           std::uint8_t* codes, float* scales, CudaStream stream);

// optimizer.cu
int adam(std::span<const AdamArrays> arrays, CudaStream stream);
int clip(Norm norm, const float* sum, float max_norm, std::span<const KernelArray> values,
         CudaStream stream);

// rows.cu
int add_bias(Array to, const StoredRows& rows, ConstArray bias, CudaStream stream);
int mean(const float* values, std::int64_t numel, float* to, CudaStream stream);
int gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width, float* x,
                CudaStream stream);
int scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width, Array gradient,
                 CudaStream stream);
int add_positions(ConstArray table, const Positions& shape, float* x, CudaStream stream);
int sum_positions(const float* dx, const Positions& shape, Array gradient, CudaStream stream);

// cross_entropy.cu
int cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                  float scale, Array gradient, float* losses, CudaStream stream);

// norm.cu
int norm_forward(const NormShape& shape, const float* x, ConstArray weight, ConstArray bias,
                 Array y, Array normal, float* reciprocal, CudaStream stream);
int norm_backward(const NormShape& shape, const float* dy, ConstArray weight, ConstArray normal,
                  const float* reciprocal, float* dx, const NormGradients& gradients,
                  CudaStream stream);

// attention.cu; `hopper`: by attention_hopper*.cu where it fits; `temporary`: as
// kernels::DevicePlan
int attention_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in, Array out,
                      float* statistics, bool hopper, CudaStream stream);
int attention_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                       const AttentionOut& out, const float* statistics,
                       const HeadArrays<Array>& gradients, void* temporary, bool hopper,
                       CudaStream stream);

// attention_tiles*.cu: the same with tensor cores, where the sizes allow it
bool fits_tiles(const AttentionShape& shape, const HeadArrays<ConstArray>& in, ConstArray out);
int tiles_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in, Array out,
                  float* statistics, CudaStream stream);
int tiles_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                   const AttentionOut& out, const float* statistics,
                   const HeadArrays<Array>& gradients, const float* along, CudaStream stream);

// attention_hopper*.cu: the same with what only Hopper's multiprocessors have; `memory`: as
// kernels::HopperGradient, of which `along` has been computed
bool fits_hopper(const AttentionShape& shape, const HeadArrays<ConstArray>& in);
int hopper_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in, Array out,
                   float* statistics, CudaStream stream);
bool fits_hopper_gradient(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                          ConstArray out_gradient);
int hopper_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                    ConstArray out_gradient, const float* statistics,
                    const HeadArrays<Array>& gradients, void* memory, CudaStream stream);

}  // namespace tessera::device
