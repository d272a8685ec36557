// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/options/sample_value.h"

namespace tessera::test {
namespace {

Model tiny() {
  auto model = load_model(std::string(TESSERA_SOURCE_DIR) + "/examples/models/gpt-tiny.json");
  REQUIRE(model.ok());
  return *model;
}

OptionValue value_of(const OptionValues& values, const std::string& name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  FAIL(name << " is not written down");
  return false;
}

TEST_CASE("every option of every scheme is written down as it was set, and read back",
          "[options]") {
  const Model model = tiny();
  for (const std::string& name : scheme_names()) {
    for (const Option& option : options_known_to(name)) {
      INFO(name << " " << option.name);
      auto scheme = scheme_named(name);
      REQUIRE(scheme.ok());
      CHECK(name_of(*scheme) == name);
      CHECK(value_of(options_of(*scheme, model), option.name) == option.standard);
      const OptionValue other = sample_value(option);
      CHECK(other != option.standard);
      const Status set = set_option(*scheme, option.name, other);
      INFO(set.message());
      REQUIRE(set.ok());
      const OptionValues values = options_of(*scheme, model);
      CHECK(value_of(values, option.name) == other);
      const auto again = scheme_from(name, values, model);
      REQUIRE(again.ok());
      CHECK(options_of(*again, model) == values);
    }
  }
}

TEST_CASE("a plan is written down by names and read back with its overrides", "[options]") {
  const Model model = tiny();
  WrapContext context(model);
  {
    const auto scope = context.enable_wrap({.mixed_precision = true});
    REQUIRE(scope.ok());
    REQUIRE(context.wrap("h.0.attn", {.reshard_after_forward = false}).ok());
    REQUIRE(context.wrap("h.0").ok());
    REQUIRE(context.wrap("h.2", {.mixed_precision = false}).ok());
  }
  const auto plan = context.plan({.ignored_states = {"h.3.ln_1.weight"}});
  REQUIRE(plan.ok());
  const Scheme scheme = FullyShardOptions{.plan = *plan};
  const OptionValues values = options_of(scheme, model);
  CHECK(value_of(values, "plan") == OptionValue(std::vector<std::string>{
                                        "(root)", "h.0 mixed_precision=true",
                                        "h.0.attn mixed_precision=true reshard_after_forward=false",
                                        "h.2 mixed_precision=false"}));
  CHECK(value_of(values, "ignored_parameters") ==
        OptionValue(std::vector<std::string>{"h.3.ln_1.weight"}));
  const auto again = scheme_from("fully_shard", values, model);
  INFO(again.status().message());
  REQUIRE(again.ok());
  CHECK(options_of(*again, model) == values);
  const WrapPlan& read = *std::get<FullyShardOptions>(*again).plan;
  REQUIRE(read.units.size() == plan->units.size());
  for (std::size_t u = 0; u < read.units.size(); ++u) {
    CHECK(read.units[u].module == plan->units[u].module);
    CHECK(read.units[u].parameters == plan->units[u].parameters);
    CHECK(read.units[u].overrides == plan->units[u].overrides);
  }
  CHECK(read.ignored == plan->ignored);
  OptionValues broken = values;
  broken[broken.size() - 2].second = std::vector<std::string>{"h.0 mixed=1"};
  CHECK(scheme_from("fully_shard", broken, model)
            .status()
            .message()
            .find("\"mixed\" is no setting of a unit") != std::string::npos);
}

TEST_CASE("an option that means nothing because of others is named with what it needs",
          "[options]") {
  const auto message = [](const std::string& name, const OptionValues& set,
                          const std::vector<std::string>& given) {
    Scheme scheme = *scheme_named(name);
    for (const auto& [option, value] : set) REQUIRE(set_option(scheme, option, value).ok());
    return check_needs(scheme, given, OptionSpelling::flags).message();
  };
  CHECK(message("zero3", {}, {"max_reuse_distance"}) ==
        "--max-reuse-distance means nothing to the scheme zero3 without --policy compatible or "
        "compatible-0.19: leave it out");
  CHECK(message("zero3", {{"policy", "compatible"}}, {"max_reuse_distance"}).empty());
  CHECK(message("zero3", {{"policy", "compatible"}}, {"live_budget"}) ==
        "--live-budget means nothing to the scheme zero3 without --policy strict: leave it out");
  CHECK(message("full_shard", {}, {"torch_1_13"}) ==
        "--torch-1-13 means nothing to the scheme full_shard without --forward-prefetch: "
        "leave it out");
  CHECK(message("zero3", {}, {"nvme_smallest"}) ==
        "--nvme-smallest means nothing to the scheme zero3 without --offload-param nvme or "
        "--offload-optimizer nvme: leave it out");
  CHECK(message("zero3", {{"offload_optimizer", "nvme"}}, {"nvme_smallest"}).empty());
}

TEST_CASE("needs name options and words that there are", "[options]") {
  for (const std::string& name : scheme_names()) {
    const auto known = options_known_to(name);
    for (const Option& option : known) {
      for (const OptionNeed& need : option.needs) {
        INFO(name << " " << option.name << " needs " << need.option);
        const auto other = std::find_if(known.begin(), known.end(),
                                        [&](const Option& o) { return o.name == need.option; });
        REQUIRE(other != known.end());
        for (const std::string& word : need.words) {
          const bool flag = other->kind == OptionKind::flag && (word == "true" || word == "false");
          CHECK((flag || std::count(other->words.begin(), other->words.end(), word) == 1));
        }
      }
    }
  }
}

TEST_CASE("options that a scheme has not are refused with the nearest it has", "[options]") {
  Scheme zero3 = Zero3Options{};
  CHECK(set_option(zero3, "reduce_buckett", std::int64_t{3}).message() ==
        "the scheme zero3 has no option reduce_buckett, did you mean \"reduce_bucket\"?");
  Scheme zero1 = *scheme_named("zero1");
  CHECK(set_option(zero1, "overlap_comm", true).message().find("zero1 has no option") !=
        std::string::npos);
  CHECK(scheme_named("zero4").status().message().find("choose fully_shard, full_shard") !=
        std::string::npos);
}

TEST_CASE("every option of a training step is written down and read back", "[options]") {
  for (const Option& option : training_options().options) {
    INFO(option.name);
    TrainingOptions options;
    CHECK(value_of(options_of(options), option.name) == option.standard);
    const OptionValue other = option.name == "passes"
                                  ? OptionValue(std::vector<std::string>{"eval:short", "step"})
                                  : sample_value(option);
    REQUIRE(set_option(options, option.name, other).ok());
    CHECK(value_of(options_of(options), option.name) == other);
  }
  TrainingOptions options;
  CHECK(set_option(options, "passes", std::vector<std::string>{"step:short"})
            .message()
            .find("--passes 'step:short'") == 0);
}

}  // namespace
}  // namespace tessera::test
