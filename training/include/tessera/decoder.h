// SPDX-License-Identifier: Apache-2.0
// Text generation with a trained language model: logits of the next token, without an engine.
//
// The idea: keys and values of all tokens that were taken stay in memory, so a further token costs
// one token's work, however many there are before it. That memory is planned and taken at once.
//
//   TESSERA_ASSIGN(Decoder decoder, Decoder::create(model, parameters, {.context = 1024}));
//   TESSERA_ASSIGN(std::vector<float> logits, decoder.take(prompt));
//   while (...) {
//     const std::int32_t next = choose(logits);
//     TESSERA_ASSIGN(logits, decoder.take(std::span(&next, 1)));
//   }
//
// On CPUs, in float32. The same calls give the same bits; tokens taken one by one and the same ones
// taken together give the same logits but for the rounding of sums.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/model.h"
#include "tessera/status.h"

namespace tessera {

struct DecoderOptions {
  std::int64_t context = 0;  // tokens that are kept; 0: as many as the model has places
  int threads = 0;           // 0: as many as this process may use
};

class Decoder {
 public:
  /// `parameters` by ParameterId, float32; they must outlive the decoder, the model need not.
  /// Fails: invalid_argument (a parameter of another size; more context than the model has places
  /// or its attention looks back), not_supported (as LanguageModel::create).
  static Result<Decoder> create(const Model& model, std::vector<std::span<const float>> parameters,
                                const DecoderOptions& options);
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  ~Decoder();

  /// The logits of the token after `tokens`, which follow those that were taken before.
  /// Fails, and takes none: invalid_argument (no tokens, more than the context has places for, or
  /// one that is not in the vocabulary).
  Result<std::vector<float>> take(std::span<const std::int32_t> tokens);
  /// Forgets all tokens, to begin another text.
  void forget();

  std::int64_t taken() const;
  std::int64_t context() const;
  /// The memory that the decoder holds besides the parameters; it does not grow.
  Bytes memory() const;

 private:
  struct State;
  explicit Decoder(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tessera
