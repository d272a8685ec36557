// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt. What a product needs is chosen once per shape and alignment, and always the
// same; split sums go through the workspace and are added in a fixed order.
#include <cublasLt.h>

#include <map>
#include <optional>
#include <tuple>

#include "engine/backends/cuda/module/first_launches.h"
#include "engine/backends/cuda/module/products.h"

namespace tessera::device {
static_assert(not_supported == cudaErrorNotSupported);

namespace {

// As an error of CUDA, which is what the backend reports.
int cuda_code(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return cudaSuccess;
    case CUBLAS_STATUS_ALLOC_FAILED: return cudaErrorMemoryAllocation;
    case CUBLAS_STATUS_INVALID_VALUE: return cudaErrorInvalidValue;
    case CUBLAS_STATUS_NOT_SUPPORTED: return cudaErrorNotSupported;
    case CUBLAS_STATUS_NOT_INITIALIZED: return cudaErrorInitializationError;
    default: return cudaErrorLaunchFailure;
  }
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bfloat16: return CUDA_R_16BF;
    case DType::float16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

std::uint32_t alignment_of(const void* at) {
  constexpr std::uint32_t most = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  std::uint32_t alignment = 1;
  while (alignment < most && address % (alignment * 2) == 0) alignment *= 2;
  return alignment;
}

// The descriptors that cuBLASLt needs, and the algorithm that it has chosen.
class Choice {
 public:
  using Alignments = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // of A, B, C

  cublasStatus_t made = CUBLAS_STATUS_SUCCESS;  // what `make` returned

  Choice(const kernels::MatmulShape& shape, bool tf32)
      : shape_(shape), tf32_(tf32 && shape.input == DType::float32 && !in_fp8()) {}
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;
  ~Choice() {
    if (preference_ != nullptr) cublasLtMatmulPreferenceDestroy(preference_);
    for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (product_ != nullptr) cublasLtMatmulDescDestroy(product_);
  }

  cublasStatus_t make(cublasLtHandle_t handle, const Alignments& alignments,
                      const ProductOperands& o) {
    const ColumnProduct by = by_columns(shape_);
    const auto compute = tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t status = cublasLtMatmulDescCreate(&product_, compute, CUDA_R_32F);
    const auto then = [&status](cublasStatus_t next) {
      if (status == CUBLAS_STATUS_SUCCESS) status = next;
    };
    then(set(CUBLASLT_MATMUL_DESC_TRANSA, by.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    then(set(CUBLASLT_MATMUL_DESC_TRANSB, by.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (shape_.bias) then(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    if (in_fp8()) {
      then(set_scale_modes());
      then(set_scales(o));  // it looks at them when it chooses
    }
    then(layout(first_, by.first, type_of_operands()));
    then(layout(second_, by.second, type_of_operands()));
    then(layout(result_, by.result, type_of(shape_.output)));
    then(cublasLtMatmulPreferenceCreate(&preference_));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const auto [a, b, c] = alignments;
    then(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                static_cast<std::uint64_t>(workspace_bytes.value)));
    then(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
    then(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b));
    then(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a));
    then(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c));
    then(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c));
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(handle, product_, first_, second_, result_, result_,
                                              preference_, 1, &chosen_, &found);
    }
    return status == CUBLAS_STATUS_SUCCESS && found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
  }

  cublasStatus_t run(cublasLtHandle_t handle, const ProductOperands& o, cudaStream_t stream) {
    constexpr float one = 1;
    const float before = shape_.add ? 1.0F : 0.0F;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (shape_.bias) status = set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias.data);
    if (in_fp8() && status == CUBLAS_STATUS_SUCCESS) status = set_scales(o);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatmul(handle, product_, &one, o.b, first_, o.a, second_, &before, o.c, result_,
                          o.c, result_, &chosen_.algo, o.scratch,
                          static_cast<std::size_t>(workspace_bytes.value), stream);
  }

 private:
  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t what, const T& value) {
    return cublasLtMatmulDescSetAttribute(product_, what, &value, sizeof(value));
  }
  template <class T>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t what, const T& value) {
    return cublasLtMatmulPreferenceSetAttribute(preference_, what, &value, sizeof(value));
  }
  static cublasStatus_t layout(cublasLtMatrixLayout_t& made, const ColumnMatrix& m,
                               cudaDataType_t type) {
    return cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(m.rows),
                                      static_cast<std::uint64_t>(m.columns), m.leading);
  }

  bool in_fp8() const { return shape_.fp8 != kernels::Fp8::none; }
  cudaDataType_t type_of_operands() const {
    return in_fp8() ? CUDA_R_8F_E4M3 : type_of(shape_.input);
  }

  // Its A is our B.
  cublasStatus_t set_scales(const ProductOperands& o) {
    const cublasStatus_t status = set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, o.b_scales);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, o.a_scales);
  }
  cublasStatus_t set_scale_modes() {
#if CUBLAS_VERSION >= 120900
    constexpr std::int32_t tiles = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    constexpr std::int32_t blocks = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    const std::int32_t first = shape_.fp8 == kernels::Fp8::weight ? blocks : tiles;
    const cublasStatus_t status = set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, first);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, tiles);
#else
    return CUBLAS_STATUS_NOT_SUPPORTED;
#endif
  }

  const kernels::MatmulShape shape_;
  const bool tf32_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;
  cublasLtMatrixLayout_t second_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

class CublasProducts final : public Products {
 public:
  CublasProducts(cublasLtHandle_t handle, bool tf32) : handle_(handle), tf32_(tf32) {}
  ~CublasProducts() override {
    choices_.clear();
    cublasLtDestroy(handle_);
  }

  int run(const kernels::MatmulShape& shape, const ProductOperands& operands,
          CudaStream stream) override {
    const Choice::Alignments alignments{alignment_of(operands.a), alignment_of(operands.b),
                                        alignment_of(operands.c)};
    std::unique_ptr<Choice>& choice = choices_[{shape, alignments}];
    if (choice == nullptr) {
      if (const int code = before_load(); code != 0) return code;
      choice = std::make_unique<Choice>(shape, tf32_);
      choice->made = choice->make(handle_, alignments, operands);
    }
    if (choice->made != CUBLAS_STATUS_SUCCESS) return cuda_code(choice->made);
    return cuda_code(choice->run(handle_, operands, reinterpret_cast<cudaStream_t>(stream)));
  }

 private:
  cublasLtHandle_t handle_;
  const bool tf32_;
  std::map<std::pair<kernels::MatmulShape, Choice::Alignments>, std::unique_ptr<Choice>> choices_;
};

}  // namespace

std::size_t cublas_version() { return cublasLtGetVersion(); }

std::unique_ptr<Products> make_products(bool tf32) {
  cublasLtHandle_t handle = nullptr;
  if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  return std::make_unique<CublasProducts>(handle, tf32);
}

}  // namespace tessera::device
