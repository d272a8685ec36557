// SPDX-License-Identifier: Apache-2.0
// The C API, used as a C program would: examples/train_c.c is one.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/c_api/handles.h"

namespace {

using Catch::Matchers::Contains;

using tessera::test::Handles;
using tessera::test::initial;
using tessera::test::open;
using tessera::test::two_layers;

void require_ok(int code) { tessera::test::require_done(code); }

struct Seen {
  std::vector<std::string> calls;
  std::map<std::int32_t, std::vector<float>> values;  // by parameter, of rank 0's last forward
};

// The gradient of an element is its rank + 1, plus its value.
void compute(void* user, const tessera_pass* pass) {
  auto& seen = *static_cast<Seen*>(user);
  if (pass->rank == 0) {
    const char* const kinds[] = {"forward ", "backward ", "recompute ", "evaluate "};
    seen.calls.push_back(std::string(kinds[pass->kind]) + pass->module + " " +
                         std::to_string(pass->micro_batch));
  }
  for (std::int32_t t = 0; t < pass->tensor_count; ++t) {
    const tessera_tensor& tensor = pass->tensors[t];
    const auto* value = static_cast<const float*>(tensor.value);
    auto* gradient = static_cast<float*>(tensor.gradient);
    if (pass->kind == TESSERA_FORWARD && pass->rank == 0) {
      seen.values[tensor.parameter].assign(value, value + tensor.numel);
    }
    for (std::int64_t i = 0; gradient != nullptr && i < tensor.numel; ++i) {
      gradient[i] += static_cast<float>(pass->rank + 1) + value[i];
    }
  }
}

Seen train(const char* scheme, const char* options, std::int32_t ranks) {
  Handles all;
  open(all, scheme, options, ranks);
  require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
  Seen seen;
  tessera_step_options step{};
  step.struct_size = sizeof step;
  step.learning_rate = 0.5F;
  step.accumulation = 2;
  for (int i = 0; i < 3; ++i) {
    seen.calls.clear();
    require_ok(tessera_engine_step(all.engine, &step, compute, &seen));
  }
  const std::array<float, 4> values{1, 2, 3, 4};
  float mean = 0;
  require_ok(tessera_runtime_mean(all.runtime, values.data(), &mean));
  CHECK(mean == static_cast<float>(ranks + 1) / 2);
  require_ok(tessera_runtime_finish(all.runtime));
  return seen;
}

TEST_CASE("every scheme trains the same from C", "[c_api]") {
  const std::int32_t ranks = GENERATE(1, 2, 4);
  const Seen expected = train("no_shard", R"({"use_orig_params": true})", ranks);
  CHECK(expected.calls == std::vector<std::string>{"forward a 0", "forward b 0", "backward b 0",
                                                   "backward a 0", "forward a 1", "forward b 1",
                                                   "backward b 1", "backward a 1"});
  CHECK(expected.values.at(0).size() == 15);
  CHECK(expected.values.at(0)[3] != initial(nullptr, 0, 3));
  CHECK(expected.values.at(3)[1] == initial(nullptr, 3, 1));  // frozen
  for (const auto& [scheme, options] : std::vector<std::pair<const char*, const char*>>{
           {"fully_shard", nullptr},
           {"fully_shard", R"({"units": ["a"], "reshard_after_forward": "never"})"},
           {"full_shard", R"({"units": ["b"], "use_orig_params": true})"},
           {"hybrid_shard", R"({"shard_group": 1, "use_orig_params": true})"},
           {"shard_grad_op", R"({"use_orig_params": true})"},
           {"replicate", R"({"bucket_cap": 40})"},
           {"sharded_data_parallel", nullptr},
           {"zero1", nullptr},
           {"zero2", R"({"overlap_comm": true, "reduce_bucket": 10})"},
           {"zero3", R"({"persistence_threshold": 0})"}}) {
    INFO(scheme << " on " << ranks << " ranks");
    const Seen seen = train(scheme, options, ranks);
    CHECK(seen.calls == expected.calls);
    CHECK(seen.values == expected.values);
  }
}

// What tessera_engine_step does, by hand.
void drive(Handles& all, Seen& seen, std::int32_t kind) {
  const bool backward = kind == TESSERA_BACKWARD;
  require_ok(tessera_engine_begin(all.engine, kind));
  for (const char* module : {backward ? "b" : "a", backward ? "a" : "b"}) {
    require_ok(tessera_engine_enter(all.engine, module));
    const std::size_t calls = seen.calls.size();
    require_ok(tessera_engine_compute(all.engine, module, compute, &seen));
    CHECK(seen.calls.size() == calls + 1);
    require_ok(tessera_engine_leave(all.engine, module));
  }
  require_ok(tessera_engine_end(all.engine));
}

TEST_CASE("a program that drives its own passes trains as one that is called", "[c_api]") {
  const char* const scheme =
      GENERATE("fully_shard", "full_shard", "replicate", "sharded_data_parallel", "zero2", "zero3");
  INFO(scheme);
  const bool flat = std::string(scheme) == "full_shard";  // whose units mix trained and frozen
  const char* const options = flat ? R"({"use_orig_params": true})" : nullptr;
  const Seen expected = train(scheme, options, 2);
  Handles all;
  open(all, scheme, options, 2);
  require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
  Seen seen;
  tessera_step_options step{};
  step.struct_size = sizeof step;
  step.learning_rate = 0.5F;
  for (int i = 0; i < 3; ++i) {
    seen.calls.clear();
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      drive(all, seen, TESSERA_FORWARD);
      drive(all, seen, TESSERA_BACKWARD);
    }
    CHECK(seen.calls == expected.calls);
    if (i < 2) require_ok(tessera_engine_update(all.engine, &step));
    if (i == 0) drive(all, seen, TESSERA_EVALUATE);
  }
  float norm = 0;
  CHECK(tessera_engine_grad_norm(all.engine, &norm) == TESSERA_INVALID_ARGUMENT);
  step.grad_norm = 1;
  require_ok(tessera_engine_update(all.engine, &step));
  require_ok(tessera_engine_grad_norm(all.engine, &norm));
  CHECK(norm > 0);
  require_ok(tessera_runtime_finish(all.runtime));
  CHECK(seen.values == expected.values);
}

TEST_CASE("passes out of order are refused", "[c_api]") {
  Handles all;
  open(all, "fully_shard", nullptr, 2);
  require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
  Seen seen;
  CHECK(tessera_engine_enter(all.engine, "a") == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("of module a: call tessera_engine_begin first"));
  CHECK(tessera_engine_end(all.engine) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_begin(all.engine, TESSERA_RECOMPUTE) == TESSERA_INVALID_ARGUMENT);
  require_ok(tessera_engine_begin(all.engine, TESSERA_FORWARD));
  CHECK(tessera_engine_begin(all.engine, TESSERA_BACKWARD) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_enter(all.engine, "c") == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("two has no module c"));
  CHECK(tessera_engine_compute(all.engine, "a", nullptr, nullptr) == TESSERA_INVALID_ARGUMENT);
}

TEST_CASE("what is saved is loaded by another scheme and number of ranks", "[c_api]") {
  const std::string folder = std::string(TESSERA_BINARY_DIR) + "/tests/scratch/c_api";
  const auto read = [](void* user, std::int32_t, std::int64_t first, const float* values,
                       std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      (*static_cast<std::map<std::int64_t, float>*>(user))[first + i] = values[i];
    }
  };
  std::map<std::int64_t, float> saved, loaded;
  {
    Handles all;
    open(all, "zero3", nullptr, 2);
    require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
    Seen seen;
    require_ok(tessera_engine_step(all.engine, nullptr, compute, &seen));
    tessera_save_options options{};
    options.struct_size = sizeof options;
    options.state = "line 17";
    require_ok(tessera_save(all.engine, folder.c_str(), 1, &options));
    require_ok(tessera_engine_read_shards(all.engine, 0, read, &saved));
    require_ok(tessera_runtime_finish(all.runtime));
  }
  Handles all;
  open(all, "fully_shard", nullptr, 3);
  require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
  CHECK(tessera_load(all.engine, "/nowhere", nullptr, nullptr) == TESSERA_IO_ERROR);
  std::int64_t step = 0;
  const char* state = nullptr;
  require_ok(tessera_load(all.engine, folder.c_str(), &step, &state));
  require_ok(tessera_engine_read_shards(all.engine, 0, read, &loaded));
  require_ok(tessera_runtime_finish(all.runtime));
  CHECK(step == 1);
  CHECK(std::string(state) == "line 17");
  CHECK(saved.size() == 15);
  CHECK(loaded == saved);
  CHECK(saved.at(3) != initial(nullptr, 0, 3));
  std::filesystem::remove_all(folder);
}

TEST_CASE("shards are read rank by rank", "[c_api]") {
  Handles all;
  open(all, "fully_shard", nullptr, 2);
  require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
  std::map<std::int64_t, float> elements;
  const auto read = [](void* user, std::int32_t, std::int64_t first, const float* values,
                       std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      (*static_cast<std::map<std::int64_t, float>*>(user))[first + i] = values[i];
    }
  };
  require_ok(tessera_engine_read_shards(all.engine, 0, read, &elements));
  require_ok(tessera_runtime_finish(all.runtime));
  REQUIRE(elements.size() == 15);
  for (const auto& [index, value] : elements) CHECK(value == initial(nullptr, 0, index));
}

TEST_CASE("models say what they have", "[c_api]") {
  Handles all;
  require_ok(tessera_model_from_json(two_layers, &all.model));
  CHECK(tessera_model_parameter_count(all.model) == 4);
  CHECK(std::string(tessera_model_parameter_name(all.model, 1)) == "a.bias");
  CHECK(tessera_model_parameter_numel(all.model, 0) == 15);
  CHECK(tessera_model_parameter_name(all.model, 4) == nullptr);
  std::array<std::int64_t, 4> shape{-1, -1, -1, -1};
  CHECK(tessera_model_parameter_shape(all.model, 0, shape.data(), 1) == 2);
  CHECK(shape == std::array<std::int64_t, 4>{3, -1, -1, -1});
  CHECK(tessera_model_parameter_shape(all.model, 0, shape.data(), 4) == 2);
  CHECK(shape == std::array<std::int64_t, 4>{3, 5, -1, -1});
  CHECK(tessera_model_parameter_shape(all.model, 4, shape.data(), 4) == -1);
  CHECK(tessera_model_parameter_shape(all.model, 0, nullptr, 0) == 2);
  CHECK(tessera_model_parameter_numel(all.model, -1) == -1);
}

TEST_CASE("errors are a code and a sentence", "[c_api]") {
  Handles all;
  CHECK(tessera_model_load("/nowhere.json", &all.model) == TESSERA_IO_ERROR);
  CHECK_THAT(tessera_last_error(), Contains("/nowhere.json"));
  CHECK(tessera_model_from_json("{", &all.model) == TESSERA_INVALID_ARGUMENT);
  open(all, "replicate", nullptr, 2);
  tessera_engine* other = nullptr;
  CHECK(tessera_engine_create(all.runtime, all.model, "zero4", nullptr, &other) ==
        TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("scheme \"zero4\": must be fully_shard, "));
  CHECK(tessera_engine_create(all.runtime, all.model, "zero3", R"({"bucket": 3})", &other) ==
        TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("options of zero3: unknown key \"bucket\""));
  CHECK(tessera_engine_create(all.runtime, all.model, "fully_shard", R"({"units": [3]})", &other) ==
        TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_create(all.runtime, all.model, "fully_shard", R"({"units": 3})", &other) ==
        TESSERA_INVALID_ARGUMENT);
  CHECK(other == nullptr);
  CHECK(tessera_engine_step(all.engine, nullptr, nullptr, nullptr) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_read_shards(all.engine, 9, nullptr, nullptr) == TESSERA_INVALID_ARGUMENT);
  tessera_runtime_options options{};
  options.struct_size = sizeof options;
  options.kind = 9;
  tessera_runtime* runtime = nullptr;
  CHECK(tessera_runtime_create(&options, &runtime) == TESSERA_INVALID_ARGUMENT);
  options.kind = TESSERA_MPI;
  options.modules = "/nowhere";
  CHECK(tessera_runtime_create(&options, &runtime) == TESSERA_NOT_SUPPORTED);
  CHECK(std::string(tessera_version()) == "0.2.0");
}

TEST_CASE("options that are not given are those of the C++ structs", "[c_api]") {
  Handles all;
  open(all, "replicate", nullptr, 2);
  tessera_engine* other = nullptr;
  // The model mixes trained and frozen parameters, which only use_orig_params allows.
  CHECK(tessera_engine_create(all.runtime, all.model, "full_shard", "{}", &other) ==
        TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("use_orig_params"));
  CHECK(tessera_engine_create(all.runtime, all.model, "zero3", R"({"max_reuse_distance": 3})",
                              &other) == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(),
             Contains("max_reuse_distance means nothing to the scheme zero3 without policy "
                      "compatible"));
}

TEST_CASE("what a struct says is read or refused", "[c_api]") {
  Handles all;
  open(all, "replicate", nullptr, 2);
  require_ok(tessera_engine_initialise(all.engine, initial, nullptr));
  const auto refusal = [](int code) {
    CHECK(code == TESSERA_INVALID_ARGUMENT);
    return std::string(tessera_last_error());
  };
  const auto runtime_of = [](int kind, std::int32_t ranks) {
    tessera_runtime_options options{};
    options.struct_size = sizeof options;
    options.kind = kind;
    options.ranks = ranks;
    return options;
  };
  tessera_runtime* none = nullptr;
  for (const auto& [kind, ranks] : {std::pair{TESSERA_SIMULATOR, -3},
                                    {TESSERA_SIMULATOR, 1 << 30},
                                    {TESSERA_LOCAL, 4},
                                    {TESSERA_LOCAL, -1}}) {
    const tessera_runtime_options options = runtime_of(kind, ranks);
    CHECK_THAT(refusal(tessera_runtime_create(&options, &none)),
               Contains("ranks: " + std::to_string(ranks)));
  }
  tessera_runtime_options unset = runtime_of(TESSERA_SIMULATOR, 2);
  unset.struct_size = 0;
  CHECK_THAT(refusal(tessera_runtime_create(&unset, &none)), Contains("struct_size"));
  const auto step_of = [](auto member, auto value) {
    tessera_step_options step{};
    step.struct_size = sizeof step;
    step.*member = value;
    return step;
  };
  using Step = tessera_step_options;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<Step, const char*> wrong[] = {
      {step_of(&Step::learning_rate, nan), "learning_rate is nan"},
      {step_of(&Step::learning_rate, -1.0F), "learning_rate is -1"},
      {step_of(&Step::beta2, 1.0F), "beta2 is 1, but must be at least 0 and below 1"},
      {step_of(&Step::max_grad_norm, nan), "max_grad_norm: nan"},
      {step_of(&Step::max_grad_norm, -1.0F), "max_grad_norm: -1"},
      {step_of(&Step::accumulation, -2), "accumulation: -2"},
      {step_of(&Step::checkpoint, 1), "checkpoint and reduce_last_only are for"}};
  for (const auto& [step, sentence] : wrong) {
    CHECK_THAT(refusal(tessera_engine_update(all.engine, &step)), Contains(sentence));
  }
  tessera_group group{};
  group.struct_size = sizeof group;
  group.given = 32;
  CHECK_THAT(refusal(tessera_engine_set_groups(all.engine, &group, 1)), Contains("given is 32"));
  group.given = TESSERA_WEIGHT_DECAY;
  group.weight_decay = nan;
  CHECK_THAT(refusal(tessera_engine_set_groups(all.engine, &group, 1)),
             Contains("param group 0: weight_decay is nan"));
  tessera_save_options save{};
  save.struct_size = sizeof save;
  save.keep = -2;
  CHECK_THAT(refusal(tessera_save(all.engine, "nowhere", 1, &save)), Contains("keep: -2"));
  CHECK_THAT(refusal(tessera_save(all.engine, "nowhere", -1, nullptr)), Contains("step -1"));
}

// A program that was compiled with a header in which the options had fewer members.
TEST_CASE("structs of older programs are understood", "[c_api]") {
  Handles all;
  tessera_runtime_options options;
  std::memset(&options, 0xff, sizeof options);  // what lies behind the struct of such a program
  options.struct_size = offsetof(tessera_runtime_options, deadline_seconds);
  options.kind = TESSERA_SIMULATOR;
  options.ranks = 3;
  require_ok(tessera_runtime_create(&options, &all.runtime));
  CHECK(tessera_runtime_ranks(all.runtime) == 3);
  CHECK(tessera_runtime_first_rank(all.runtime) == 0);
  CHECK(tessera_runtime_local_ranks(all.runtime) == 3);
}

}  // namespace
