// SPDX-License-Identifier: Apache-2.0
// What a module of a language model computes, on memory that others give.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/math.h"
#include "training/language/room.h"

namespace tessera::language {

/// What all layers of a model share.
struct Shape {
  std::int64_t batch = 1, length = 1, width = 1;
  std::int64_t context = 0;           // decoding: tokens whose keys and values are kept
  DType dtype = DType::float32;       // of matrices
  DType parameters = DType::float32;  // as bodies read them
  int threads = 1;
  Processor processor = Processor::cpu;

  /// Of parameters and gradients that have two bytes an element.
  DType half() const { return parameters == DType::float32 ? dtype : parameters; }

  std::int64_t tokens() const { return batch * length; }
  /// In which tokens can be.
  std::int64_t places() const { return context > 0 ? context : length; }
};

/// What outlives a module, on one rank.
struct Workspace {
  float* x = nullptr;              // the residual stream: tokens x width
  float* dx = nullptr;             // its gradient; the same place if nothing is computed twice
  kernels::Array y;                // what a norm hands to the next module
  float* dy = nullptr;             // its gradient, in the same place
  std::int32_t* tokens = nullptr;  // inputs, targets, places of the inputs in their order
  float* rotary = nullptr;         // cosines, sines
  std::byte* scratch = nullptr;    // of the matrix library
};

/// A parameter among the views of a module's work.
struct Slot {
  int read = -1;   // none
  int write = -1;  // frozen
  std::int64_t numel = 0;
};

/// One pass of one module on one rank.
struct Call {
  kernels::Math* math = nullptr;
  Workspace work;
  std::byte* saved = nullptr;
  std::byte* kept = nullptr;  // Layer::keeps
  std::int64_t first = 0;     // decoding: the place of the first token
  std::byte* temporary = nullptr;
  std::vector<std::span<const std::byte>> parameters;
  std::vector<std::span<std::byte>> gradients;
  DType half = DType::bfloat16;  // Shape::half
  float gradient_scale = 1;      // of the loss
  std::function<void(const float*)> give_loss;
  const std::function<void()>* progress = nullptr;

  kernels::ConstArray parameter(const Slot& slot) const;
  /// No data if it is frozen.
  kernels::Array gradient(const Slot& slot) const;
  void poll() const {
    if (progress != nullptr && *progress) (*progress)();
  }
};

/// What the norm before has handed over, into what the module saves.
inline void keep_input(const Call& call, const Shape& shape, const kernels::Array& input) {
  call.math->convert(call.work.y, input, shape.tokens() * shape.width);
}

class Layer {
 public:
  virtual ~Layer() = default;
  virtual Bytes saves() const = 0;
  /// Decoding: from one pass to the next.
  virtual Bytes keeps() const { return {}; }
  virtual Bytes temporary(bool backward) const = 0;
  virtual void forward(const Call& call) const = 0;
  virtual void backward(const Call& call) const = 0;
};

/// Converted parameters, one at a time.
class Weights {
 public:
  /// `largest`: elements of the largest matrix and of the longest vector.
  Weights(const Shape& shape, std::int64_t largest_matrix, std::int64_t longest_vector, Room& room);

  /// In the type of the products. Forgets the one before.
  const void* matrix(const Call& call, const Slot& slot) const;
  /// Null if the module has none. Forgets the one before in the same place.
  const float* vector(const Call& call, const Slot& slot, int place = 0) const;
  /// gradient += sums, if it is trained.
  static void add(const Call& call, const Slot& slot, const float* sums);

 private:
  const Shape& shape_;
  kernels::Array matrix_;
  float* vector_[2] = {};
};

}  // namespace tessera::language
