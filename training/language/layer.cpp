// SPDX-License-Identifier: Apache-2.0
#include "training/language/layer.h"

namespace tessera::language {
namespace {

DType dtype_of(std::size_t bytes, std::int64_t numel, DType half) {
  if (static_cast<std::int64_t>(bytes) == 4 * numel) return DType::float32;
  TESSERA_ASSERT(static_cast<std::int64_t>(bytes) == 2 * numel,
                 "a body sees whole parameters in float32 or a half");
  return half;
}

}  // namespace

kernels::ConstArray Call::parameter(const Slot& slot) const {
  const auto bytes = parameters[static_cast<std::size_t>(slot.read)];
  return kernels::ConstArray{bytes.data(), dtype_of(bytes.size(), slot.whole, half)}.from(
      slot.offset);
}

kernels::Array Call::gradient(const Slot& slot) const {
  if (slot.write < 0) return {};
  const auto bytes = gradients[static_cast<std::size_t>(slot.write)];
  return kernels::Array{bytes.data(), dtype_of(bytes.size(), slot.whole, half)}.from(slot.offset);
}

Weights::Weights(const Shape& shape, std::int64_t largest_matrix, std::int64_t longest_vector,
                 Arena& arena)
    : shape_(shape) {
  if (shape.parameters != shape.dtype) matrix_ = arena.take(largest_matrix, shape.dtype);
  if (shape.parameters == DType::float32) return;
  for (float*& vector : vector_) vector = arena.floats(longest_vector);
}

const void* Weights::matrix(const Call& call, const Slot& slot) const {
  const kernels::ConstArray given = call.parameter(slot);
  TESSERA_ASSERT(given.dtype == shape_.parameters,
                 "LanguageModelOptions::parameters is the type that bodies read");
  if (given.dtype == shape_.dtype) return given.data;
  call.math->convert(given, matrix_, slot.numel);
  return matrix_.data;
}

// Kernels of GPUs load vectors of any type.
kernels::ConstArray Weights::vector(const Call& call, const Slot& slot, int place) const {
  if (slot.read < 0) return {};
  if (shape_.processor != Processor::cpu) return call.parameter(slot);
  return wide_vector(call, slot, place);
}

kernels::ConstArray Weights::wide_vector(const Call& call, const Slot& slot, int place) const {
  const kernels::ConstArray given = call.parameter(slot);
  if (given.dtype == DType::float32) return given;
  const kernels::Array wide{vector_[place], DType::float32};
  call.math->convert(given, wide, slot.numel);
  return wide;
}

kernels::ConstArray Weights::about_one(const Call& call, const Slot& slot, float* own) const {
  const kernels::ConstArray given = vector(call, slot);
  if (own == nullptr) return given;
  TESSERA_ASSERT(given.dtype == DType::float32, "norms about one are computed on CPUs only");
  for (std::int64_t i = 0; i < slot.numel; ++i) own[i] = 1.0F + given.as<float>()[i];
  return {own, DType::float32};
}

}  // namespace tessera::language
