// SPDX-License-Identifier: Apache-2.0
// Blocks that are checkpointed by choice, as by the check_fn of apply_activation_checkpointing.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/replicate.h"
#include "tessera/training.h"
#include "tessera/wrap.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

Model four_blocks() {
  return test::require_value(parse_model(
      R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 100, "hidden_size": 64,
          "num_hidden_layers": 4, "intermediate_size": 128, "num_attention_heads": 4})",
      "llama"));
}

using Names = std::vector<std::string>;

/// The blocks that backward computes again, in its order, or the failure.
Result<Names> computed_again(const TrainingOptions& options) {
  const Model model = four_blocks();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto engine = test::require_value(replicate(*runtime, model, {}));
  TESSERA_TRY(run_training_step(*engine, model, options));
  Names blocks;
  for (const Record& record : recording.records) {
    if (record.cause.reason != Reason::recompute) continue;
    const std::string block{record.cause.module.substr(0, std::string("model.layers.0").size())};
    if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
  }
  return blocks;
}

Names again(const Names& chosen, std::int32_t every = 1) {
  return test::require_value(computed_again({.checkpointing = ActivationCheckpointing::full,
                                             .checkpoint_every = every,
                                             .checkpoint_blocks = chosen}));
}

std::string refusal(const Names& chosen) {
  return computed_again(
             {.checkpointing = ActivationCheckpointing::full, .checkpoint_blocks = chosen})
      .status()
      .message();
}

TEST_CASE("the blocks that are named are checkpointed and no others", "[checkpointing]") {
  CHECK(again({}) == Names{"model.layers.3", "model.layers.2", "model.layers.1", "model.layers.0"});
  CHECK(again({"model.layers.*"}) == again({}));
  CHECK(again({"LlamaDecoderLayer"}) == again({}));
  CHECK(again({"model.layers.1", "**.3"}) == Names{"model.layers.3", "model.layers.1"});
  CHECK(again({"model.layers.1", "**.2"}, 2) == Names{"model.layers.2"});
}

TEST_CASE("names of what cannot be checkpointed are refused", "[checkpointing][errors]") {
  CHECK(refusal({"model.layers.1", "model.layer.2"}) ==
        "checkpoint_blocks: \"model.layer.2\" is no path or class of a module of llama, did you "
        "mean \"model.layers.2\"?");
  CHECK(refusal({"LlamaMLP"}) ==
        "checkpoint_blocks \"LlamaMLP\" names \"model.layers.0.mlp\", a LlamaMLP that is no block "
        "of llama: activations are checkpointed by whole blocks, and inside of them computed again "
        "by recompute");
}

TEST_CASE("a policy chooses the blocks to checkpoint", "[checkpointing][wrap]") {
  const Model model = four_blocks();
  const LambdaWrap odd{
      [](const Module& m) { return m.is_block && (m.path.back() - '0') % 2 == 1; }};
  CHECK(test::require_value(checkpointed_blocks(model, odd)) ==
        Names{"model.layers.1", "model.layers.3"});
  CHECK(again(test::require_value(checkpointed_blocks(model, odd))) ==
        Names{"model.layers.3", "model.layers.1"});
  CHECK(test::require_value(checkpointed_blocks(model, ClassWrap{{"LlamaDecoderLayer"}})).size() ==
        4);
  const auto refused = [&](const WrapPolicy& policy) {
    return checkpointed_blocks(model, policy).status().message();
  };
  CHECK(
      refused(ClassWrap{{"LlamaMLP"}}).starts_with("model.layers.0.mlp, a LlamaMLP, is no block"));
  CHECK(refused(LambdaWrap{[](const Module&) { return false; }}) ==
        "the policy chooses no block to checkpoint");
}

}  // namespace
}  // namespace tessera
