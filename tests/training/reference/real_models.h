// SPDX-License-Identifier: Apache-2.0
// Models that are small enough for real numbers.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "tests/parsed_model.h"

namespace tessera::test {

/// 2 layers, hidden 8, 2 heads, vocabulary 11, 6 positions.
inline Model tiny_gpt2(bool tied = true) {
  return parsed(std::string(R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 11,
      "n_positions": 6, "n_embd": 8, "n_layer": 2, "n_head": 2, "torch_dtype": "float32",
      "tie_word_embeddings": )") +
                (tied ? "true}" : "false}"));
}

/// Linear, GELU, Linear, ReLU, LayerNorm, Linear: blocks with and without parameters.
inline Model mlp_chain() {
  return parsed(R"({"tessera_model": 1, "name": "mlp", "root": {"class": "Net", "modules": [
      {"name": "in", "class": "Linear", "parameters": [{"name": "weight", "shape": [6, 5]},
                                                       {"name": "bias", "shape": [6]}]},
      {"name": "block", "class": "Sequential", "modules": [
        {"name": "0", "class": "GELU"},
        {"name": "1", "class": "Linear", "parameters": [{"name": "weight", "shape": [7, 6]},
                                                        {"name": "bias", "shape": [7]}]},
        {"name": "2", "class": "ReLU"}]},
      {"name": "norm", "class": "LayerNorm", "parameters": [{"name": "weight", "shape": [7]},
                                                            {"name": "bias", "shape": [7]}]},
      {"name": "out", "class": "Linear", "parameters": [{"name": "weight", "shape": [3, 7]}]}]}})");
}

/// `shared` runs three times, twice in a row; the block `pair` twice, apart.
inline Model repeated() {
  return parsed(R"({"tessera_model": 1, "name": "repeated", "root": {"class": "Net", "modules": [
      {"name": "in", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 3]}]},
      {"name": "shared", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]},
                                                           {"name": "bias", "shape": [4]}]},
      {"name": "pair", "class": "Sequential", "modules": [
        {"name": "0", "class": "Conv1D", "parameters": [{"name": "weight", "shape": [4, 5]}]},
        {"name": "1", "class": "GELU"},
        {"name": "2", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 5]}]}]},
      {"name": "out", "class": "Linear", "parameters": [{"name": "weight", "shape": [2, 4]}]}]},
      "forward": ["in", "shared", "shared", "pair.0", "pair.1", "pair.2", "shared",
                  "pair.0", "pair.1", "pair.2", "out"]})");
}

/// Tied embeddings outside GPT-2, and a frozen layer in the middle of those that train.
inline Model frozen_and_tied() {
  return parsed(R"({"tessera_model": 1, "name": "frozen", "root": {"class": "Net", "modules": [
      {"name": "tokens", "class": "Embedding", "parameters": [{"name": "weight", "shape": [9, 4]}]},
      {"name": "frozen", "class": "Linear", "parameters": [
        {"name": "weight", "shape": [4, 4], "requires_grad": false},
        {"name": "bias", "shape": [4]}]},
      {"name": "norm", "class": "LayerNorm", "parameters": [
        {"name": "weight", "shape": [4]},
        {"name": "bias", "shape": [4], "requires_grad": false}]},
      {"name": "head", "class": "Linear", "parameters": [{"name": "weight", "shape": [9, 4]}]}]},
      "ties": [["tokens.weight", "head.weight"]], "units": ["frozen", "norm"]})");
}

}  // namespace tessera::test
