// SPDX-License-Identifier: Apache-2.0
// What real training computes where families differ in more than shapes: a function per family,
// which its row names. Keys that are not computed become sentences in Mathematics::refused.
#pragma once

#include "engine/architectures/family.h"

namespace tessera {

void computed_qwen3(JsonReader& config, const Blueprint& b, Model& out);
void computed_smollm3(JsonReader& config, const Blueprint& b, Model& out);
void computed_olmo2(JsonReader& config, const Blueprint& b, Model& out);
void computed_phi3(JsonReader& config, const Blueprint& b, Model& out);
void computed_gemma(JsonReader& config, const Blueprint& b, Model& out);
void computed_gemma2(JsonReader& config, const Blueprint& b, Model& out);
void computed_gemma3(JsonReader& config, const Blueprint& b, Model& out);
void computed_neox(JsonReader& config, const Blueprint& b, Model& out);

/// SmolLM3's windows, which are those of blocks without rotation.
void read_smollm3(JsonReader& config, Blueprint& b);

}  // namespace tessera
