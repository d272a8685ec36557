// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/model/blueprint.h"
#include "engine/text/json_reader.h"

namespace tessera {

/// How many experts there are, how many a token meets, and how they are kept, by the keys `count`
/// ("num_experts|num_local_experts") and `used`.
void read_expert_counts(JsonReader& config, Blueprint& b, const char* count, const char* used);

/// What read_expert_counts checks: that counts are possible and the layout of experts follows.
void check_expert_counts(JsonReader& config, Blueprint& b, const std::string& count,
                         const std::string& used);

/// Sets what the list at `key` names to `value`.
void mark_blocks(JsonReader& config, const char* key, bool value, std::vector<bool>& blocks);

/// Each `decoder_sparse_step`th block has experts, but for those that `mlp_only_layers` lists.
void read_sparse_step(JsonReader& config, Blueprint& b);

/// The blocks that `mlp_layer_types` names, "dense" or "sparse", instead of those of
/// `dense_blocks`.
void read_layer_kinds(JsonReader& config, Blueprint& b);

/// The width of what all tokens meet: so many experts side by side as `key` says.
void read_shared_experts(JsonReader& config, Blueprint& b, const char* key, std::int64_t otherwise);

/// Granite's experts, as wide as `intermediate_size` says, and beside them an MLP that all tokens
/// meet, unless `shared_intermediate_size` is 0.
void read_shared_granite(JsonReader& config, Blueprint& b, std::int64_t otherwise);

/// Experts in all blocks but the first so many, `first_k_dense_replace`.
void read_first_dense(JsonReader& config, Blueprint& b, std::int64_t otherwise);

}  // namespace tessera
