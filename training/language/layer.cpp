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

const float* Weights::vector(const Call& call, const Slot& slot, int place) const {
  if (slot.read < 0) return nullptr;
  const kernels::ConstArray given = call.parameter(slot);
  if (given.dtype == DType::float32) return given.as<float>();
  call.math->convert(given, {vector_[place], DType::float32}, slot.numel);
  return vector_[place];
}

const float* Weights::about_one(const Call& call, const Slot& slot, float* own) const {
  const float* const given = vector(call, slot);
  if (own == nullptr) return given;
  for (std::int64_t i = 0; i < slot.numel; ++i) own[i] = 1.0F + given[i];
  return own;
}

void Weights::add(const Call& call, const Slot& slot, const float* sums) {
  const kernels::Array gradient = call.gradient(slot);
  if (gradient.data != nullptr) call.math->accumulate(sums, gradient, slot.numel);
}

}  // namespace tessera::language
