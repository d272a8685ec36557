// SPDX-License-Identifier: Apache-2.0
// One module of a language model: forward and backward on memory that the caller provides.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/math.h"
#include "tessera/recompute.h"
#include "training/language/arena.h"

namespace tessera::language {

/// The sizes and dtypes that all layers of a model share.
struct Shape {
  std::int64_t batch = 1, length = 1, width = 1;
  bool documents = false;             // Workspace::begins and places count
  Recompute recompute = {};           // what of blocks backward computes again
  float adapter_scale = 1;            // AdapterSlots::scale
  bool drops = false;                 // passes that train drop elements
  std::int64_t context = 0;           // decoding: tokens whose keys and values are kept
  DType dtype = DType::float32;       // matrices and saved activations
  DType parameters = DType::float32;  // parameters as bodies read them
  bool fp8 = false;                   // matrices of blocks are multiplied in fp8
  int threads = 1;
  Processor processor = Processor::cpu;

  /// The dtype of parameters and gradients that have two bytes an element.
  DType half() const { return parameters == DType::float32 ? dtype : parameters; }

  std::int64_t tokens() const { return batch * length; }
  /// Whether what a norm returns can be computed again with the same bits: from halves it cannot,
  /// and in float32 it would take as much memory as both of them.
  bool repeats_norms() const { return dtype == DType::float32 && processor == Processor::cpu; }
  /// Positions that a token can have.
  std::int64_t places() const { return context > 0 ? context : length; }
};

/// A rank's arrays that modules share during a step.
struct Workspace {
  float* x = nullptr;              // the residual stream: tokens x width
  float* dx = nullptr;             // its gradient; the same memory if nothing is recomputed
  kernels::Array y;                // the output of a norm, which the next module reads
  float* dy = nullptr;             // the gradient of y, in the same memory
  std::int32_t* tokens = nullptr;  // input ids, target ids, places of the inputs sorted by id
  /// Documents: TokenBatch::begins, positions, places of the tokens sorted by position; else null.
  std::int32_t* begins = nullptr;
  float* rotary = nullptr;       // cosines, then sines
  std::byte* scratch = nullptr;  // scratch memory of the matrix library
  /// Models whose attention and MLP add to the same input: what attention adds, until the MLP has
  /// read the stream; its gradient.
  float* held = nullptr;
  /// Where norms are repeated: what the last one has made of the stream, and its parameters; in
  /// backward what the next one made of it (RepeatedNorm).
  kernels::Array normal = {};
  float *norm_weight = nullptr, *norm_bias = nullptr;
};

/// The places of a parameter and its gradient among the views of a module's work.
struct Slot {
  int read = -1;   // -1: the module has no such parameter
  int write = -1;  // -1: the parameter is frozen
  std::int64_t numel = 0;
  std::int64_t whole = 0, offset = 0;  // of the parameter; a slot can be some of its elements

  Slot part(std::int64_t first, std::int64_t count) const {
    Slot out = *this;
    out.offset = first;
    out.numel = count;
    return out;
  }
};

/// An operation that drops elements.
struct DropoutSlots {
  float share = 0;
  std::uint32_t place = 0;  // Dropout::place
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
  std::uint64_t dropout_key = 0;
  std::int64_t first_sample = 0;  // Dropout::first_sample
  bool drops = false;             // what this pass computes trains
  std::function<void(const float*)> give_loss;
  const std::function<void()>* progress = nullptr;

  kernels::ConstArray parameter(const Slot& slot) const;
  /// No data if it is frozen.
  kernels::Array gradient(const Slot& slot) const;
  /// What is dropped by an operation with these slots; nothing if `share` is 0.
  kernels::Dropout dropout(const DropoutSlots& slots) const {
    return {drops ? slots.share : 0, dropout_key, slots.place, first_sample};
  }
  void poll() const {
    if (progress != nullptr && *progress) (*progress)();
  }
};

/// Copies the output of the norm before the module into `input`, which the module saves.
inline void keep_input(const Call& call, const Shape& shape, const kernels::Array& input) {
  call.math->convert(call.work.y, input, shape.tokens() * shape.width);
}

class Layer {
 public:
  virtual ~Layer() = default;
  /// Bytes that forward saves for backward.
  virtual Bytes saves() const = 0;
  /// Decoding: bytes that live from one pass to the next (keys and values).
  virtual Bytes keeps() const { return {}; }
  /// Bytes that are alive only while the pass runs.
  virtual Bytes temporary(bool backward) const = 0;
  virtual void forward(const Call& call) const = 0;
  virtual void backward(const Call& call) const = 0;
};

/// Parameters converted to the dtype that products and norms read, one at a time.
class Weights {
 public:
  /// `largest`: elements of the largest matrix and of the longest vector.
  Weights(const Shape& shape, std::int64_t largest_matrix, std::int64_t longest_vector,
          Arena& arena);

  /// The matrix in the dtype of the products. Overwrites the one before.
  const void* matrix(const Call& call, const Slot& slot) const;
  /// The vector, on CPUs in float32; null if the module has none. Overwrites the one before at this
  /// place.
  kernels::ConstArray vector(const Call& call, const Slot& slot, int place = 0) const;
  /// The same in float32 everywhere.
  kernels::ConstArray wide_vector(const Call& call, const Slot& slot, int place) const;
  /// 1 + the vector, in `own`; the vector itself if that is null. On CPUs only.
  kernels::ConstArray about_one(const Call& call, const Slot& slot, float* own) const;

 private:
  const Shape& shape_;
  kernels::Array matrix_;
  float* vector_[2] = {};
};

}  // namespace tessera::language
