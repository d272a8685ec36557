// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that no builder reads: refused, warned of, or without influence.
//
// The idea: a reader remembers which keys it was asked for, so that what a family reads need not be
// listed again.
#pragma once

#include <string>
#include <string_view>

#include "engine/architectures/family.h"
#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

/// Fails: invalid_argument, if the sizes of the model are in an object within the file, as those of
/// models of text and images are. `known`: the class at the top is one that is built.
Status check_nested(const JsonReader& config, bool known);

/// Refuses activation functions with trained parameters that the family does not build.
void check_activations(JsonReader& config, const std::string& model_type);

/// Refuses sizes that are null, which no class takes, tokens and classes that are no numbers.
void check_numbers(JsonReader& config, const std::string& model_type);

/// Which of `rows` tokens pads by the file, or by the class's default where it says nothing; -1:
/// none, or the family's embedding is not told.
std::int64_t padding_token(const JsonReader& config, const Family& family, std::int64_t rows);

/// Refuses layers that no builder makes: attention to an encoder, a second half.
void check_halves(JsonReader& config, bool encoder);

/// To be asked when the model is built. Fails: invalid_argument, if a key is unknown and like one
/// that `config` was asked for, and did not have. Others that nobody asked for go into one warning
/// of `model`. `trains`: what changes numbers alone matters, too.
Status check_keys_read(JsonReader& config, const std::string& model_type, bool trains,
                       Model& model);

/// Says that a file's model_type (as messages show it) and its architectures name two models.
std::string of_two_models(const std::string& shown_type, const std::string& architecture,
                          std::string_view its_type);

/// Adds a key to a list for a message, which ends with "and more ..." before it gets too long.
void add_key(std::string& list, std::string_view key);

}  // namespace tessera
