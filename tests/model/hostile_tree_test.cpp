// SPDX-License-Identifier: Apache-2.0
// One thing of a module tree, or of a config.json, changed at random: it is refused in a sentence,
// acts, or is named in a warning. TESSERA_MUTATIONS=100000 tries more.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>

#include "tessera/model.h"
#include "tests/mutated_json.h"

namespace tessera::test {
namespace {

const char* const good[] = {
    R"({"tessera_model": 1, "name": "tiny", "dtype": "bfloat16", "root": {"class": "Net",
    "parameters": [{"name": "scale", "shape": [3], "requires_grad": false, "dtype": "float32"}],
    "buffers": [{"name": "steps", "shape": [1]}],
    "modules": [{"name": "a", "class": "Linear", "parameters": [{"name": "weight",
    "shape": [4, 4]}, {"name": "bias", "shape": [4]}], "flops_per_sample": [0, 32, 0],
    "activation_bytes_per_sample": [0, 16, 0]}, {"name": "b", "class": "Block", "modules":
    [{"name": "c", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]}]},
    {"name": "out", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]}]},
    "forward": ["a", "b.c", "out"], "ties": [["a.weight", "out.weight"]],
    "units": ["a", "b"]})",
    R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64,
    "vocab_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
    "intermediate_size": 100, "decoder_sparse_step": 1, "mlp_only_layers": [1],
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "sliding_window": 64,
    "use_sliding_window": true, "eos_token_id": [2, 3], "torch_dtype": "bfloat16",
    "transformers_version": "5.1.0", "id2label": {"0": "a", "1": "b"}})",
    R"({"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 64,
    "vocab_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "type_vocab_size": 2,
    "intermediate_size": 100, "max_position_embeddings": 64, "hidden_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0})"};

TEST_CASE("a model with a mistake is read, refused in one sentence, or named", "[model][errors]") {
  const std::uint64_t all = mutations(3000);
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 1; seed <= all; ++seed) {
    const auto config = nlohmann::json::parse(good[seed % std::size(good)]);
    const MutatedJson mutated = JsonMutator(seed).mutate(config);
    const auto model = parse_model(mutated.text, "m.json");
    INFO(seed << " " << mutated.path << " " << mutated.after.dump().substr(0, 100) << ": "
              << model.status().message());
    if (!model.ok()) {
      ++refused;
      CHECK(is_one_sentence(model.status().message(), "m.json: "));
      continue;
    }
    for (const std::string& warning : model->warnings) {
      INFO(warning);
      CHECK(is_one_sentence("m.json: " + warning, "m.json: "));
    }
  }
  CHECK(refused > all / 3);
}

}  // namespace
}  // namespace tessera::test
