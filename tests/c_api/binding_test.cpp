// SPDX-License-Identifier: Apache-2.0
// What bindings of other languages need of the C API: weights, groups, hooks, traces, losses.
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/c_api/handles.h"

namespace {

using Catch::Matchers::Contains;
using tessera::test::Handles;
using tessera::test::initial;
using tessera::test::open;
using tessera::test::require_done;

constexpr std::array<std::int64_t, 4> numel = {15, 3, 7, 2};

std::string temporary(const char* name) {
  return (std::filesystem::temp_directory_path() / name).string();
}

std::vector<float> values_of(tessera_engine* engine, std::int32_t parameter) {
  std::vector<float> values(static_cast<std::size_t>(numel.at(parameter)));
  require_done(tessera_engine_get_parameter(engine, parameter, values.data(),
                                            static_cast<std::int64_t>(values.size())));
  return values;
}

// The gradient of every element is its rank + 1.
void ones(void*, const tessera_pass* pass) {
  for (std::int32_t t = 0; t < pass->tensor_count; ++t) {
    auto* gradient = static_cast<float*>(pass->tensors[t].gradient);
    for (std::int64_t i = 0; gradient != nullptr && i < pass->tensors[t].numel; ++i) {
      gradient[i] += static_cast<float>(pass->rank + 1);
    }
  }
}

void start(Handles& all, const char* scheme, std::int32_t ranks, const char* options = nullptr) {
  open(all, scheme, options, ranks);
  require_done(tessera_engine_initialise(all.engine, initial, nullptr));
}

tessera_step_options large_steps() {
  tessera_step_options step{};
  step.struct_size = sizeof step;
  step.learning_rate = 0.5F;
  return step;
}

TEST_CASE("parameters are read and written whole, whatever the scheme", "[c_api]") {
  const char* scheme =
      GENERATE("fully_shard", "no_shard", "replicate", "sharded_data_parallel", "zero1", "zero3");
  INFO(scheme);
  Handles all;
  start(all, scheme, 3,
        std::string(scheme) == "no_shard" ? R"({"use_orig_params": true})" : nullptr);
  const std::vector<float> before = values_of(all.engine, 0);
  CHECK(before[4] == initial(nullptr, 0, 4));
  std::vector<float> other(15);
  std::iota(other.begin(), other.end(), 100.0F);
  require_done(tessera_engine_set_parameter(all.engine, 0, other.data(), 15));
  CHECK(values_of(all.engine, 0) == other);
  CHECK(values_of(all.engine, 2)[3] == initial(nullptr, 2, 3));
  require_done(tessera_engine_step(all.engine, nullptr, ones, nullptr));
  CHECK(values_of(all.engine, 0)[3] == Approx(103.0F - 1e-3F));
  float one = 0;
  CHECK(tessera_engine_get_parameter(all.engine, 0, &one, 1) == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("a.weight, has 15 elements, not 1"));
  CHECK(tessera_engine_set_parameter(all.engine, 4, &one, 1) == TESSERA_INVALID_ARGUMENT);
  require_done(tessera_runtime_finish(all.runtime));
}

TEST_CASE("initial values come as arrays", "[c_api]") {
  Handles all;
  open(all, "fully_shard", nullptr, 3);
  const std::vector<std::vector<float>> made = {
      std::vector<float>(15, 1.0F), {2, 3, 4}, std::vector<float>(7, 5.0F), {6, 7}};
  std::vector<const float*> values;
  for (const auto& array : made) values.push_back(array.data());
  require_done(tessera_engine_initialise_from(all.engine, values.data()));
  for (std::int32_t p = 0; p < 4; ++p) {
    CHECK(values_of(all.engine, p) == made[static_cast<std::size_t>(p)]);
  }
  values[1] = nullptr;
  CHECK(tessera_engine_initialise_from(all.engine, values.data()) == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("a.bias"));
}

TEST_CASE("weights leave as safetensors and come back into another scheme", "[c_api]") {
  const std::string file = temporary("c_api_weights.safetensors");
  std::vector<float> trained;
  {
    Handles all;
    start(all, "zero3", 2);
    require_done(tessera_engine_step(all.engine, nullptr, ones, nullptr));
    require_done(tessera_export_weights(all.engine, file.c_str(), TESSERA_FLOAT32));
    trained = values_of(all.engine, 0);
    CHECK(tessera_export_weights(all.engine, file.c_str(), 7) == TESSERA_INVALID_ARGUMENT);
    CHECK(tessera_export_weights(all.engine, "/nowhere/w.safetensors", TESSERA_FLOAT32) ==
          TESSERA_IO_ERROR);
  }
  Handles all;
  start(all, "fully_shard", 3);
  CHECK(tessera_import_weights(all.engine, "/nowhere.safetensors") == TESSERA_IO_ERROR);
  require_done(tessera_import_weights(all.engine, file.c_str()));
  CHECK(values_of(all.engine, 0) == trained);
  std::filesystem::remove(file);
}

TEST_CASE("groups are stepped with numbers of their own", "[c_api]") {
  Handles all;
  start(all, "fully_shard", 2);
  const std::int32_t first = 0;
  const std::int32_t second = 1;
  std::array<tessera_group, 2> groups{};
  for (auto& group : groups) {
    group.struct_size = sizeof group;
    group.count = 1;
  }
  groups[0].parameters = &first;
  groups[1].parameters = &second;
  groups[1].given = TESSERA_LEARNING_RATE;
  groups[1].learning_rate = 0;
  require_done(tessera_engine_set_groups(all.engine, groups.data(), 2));
  const auto step = large_steps();
  const auto fixed = values_of(all.engine, 2);
  require_done(tessera_engine_step(all.engine, &step, ones, nullptr));
  CHECK(values_of(all.engine, 0)[0] == Approx(initial(nullptr, 0, 0) - 0.5F));
  CHECK(values_of(all.engine, 1)[0] == initial(nullptr, 1, 0));  // its rate is 0
  CHECK(values_of(all.engine, 2) == fixed);                      // in no group
  groups[1].learning_rate = 0.25F;
  require_done(tessera_engine_change_group(all.engine, 1, &groups[1]));
  require_done(tessera_engine_step(all.engine, &step, ones, nullptr));
  CHECK(values_of(all.engine, 1)[0] == Approx(initial(nullptr, 1, 0) - 0.25F));
  CHECK(tessera_engine_add_group(all.engine, groups.data()) == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("a.weight is in group 0 already"));
  const std::int32_t none = 9;
  groups[0].parameters = &none;
  CHECK(tessera_engine_add_group(all.engine, groups.data()) == TESSERA_INVALID_ARGUMENT);
  groups[0].parameters = nullptr;
  CHECK(tessera_engine_add_group(all.engine, groups.data()) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_set_groups(all.engine, groups.data(), 0) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_change_group(all.engine, 5, groups.data()) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_engine_change_group(all.engine, -1, groups.data()) == TESSERA_INVALID_ARGUMENT);
  require_done(tessera_runtime_finish(all.runtime));
}

struct Buckets {
  std::vector<float> before, after;
};

TEST_CASE("a hook sees gradients before and after their mean, and may change them", "[c_api]") {
  Handles all;
  start(all, "replicate", 3, R"({"bucket_cap": 40})");
  Buckets seen;
  const auto before = [](void* user, const tessera_bucket* bucket) {
    auto* values = static_cast<float*>(bucket->values);
    static_cast<Buckets*>(user)->before.push_back(values[0]);
    values[0] *= 2;
  };
  const auto after = [](void* user, const tessera_bucket* bucket) {
    static_cast<Buckets*>(user)->after.push_back(static_cast<float*>(bucket->values)[0]);
  };
  CHECK(tessera_engine_set_hook(all.engine, nullptr, nullptr, nullptr) == TESSERA_INVALID_ARGUMENT);
  require_done(tessera_engine_set_hook(all.engine, before, after, &seen));
  auto step = large_steps();
  step.grad_norm = 1;
  require_done(tessera_engine_step(all.engine, &step, ones, nullptr));
  float norm = 0;
  require_done(tessera_engine_grad_norm(all.engine, &norm));
  REQUIRE(seen.before.size() % 3 == 0);  // every bucket on every rank
  REQUIRE(seen.before.size() == seen.after.size());
  for (std::size_t k = 0; k < seen.after.size(); ++k) {
    CHECK(seen.before[k] == static_cast<float>(k % 3 + 1));
    CHECK(seen.after[k] == 4);  // the mean of 1, 2 and 3, doubled
  }
  const auto buckets = static_cast<float>(seen.after.size() / 3);
  CHECK(norm == Approx(std::sqrt((25 - buckets) * 4 + buckets * 16)));
  CHECK(tessera_engine_set_hook(all.engine, before, nullptr, nullptr) == TESSERA_INVALID_ARGUMENT);
  require_done(tessera_runtime_finish(all.runtime));
  Handles other;
  start(other, "fully_shard", 2);
  CHECK(tessera_engine_set_hook(other.engine, before, after, nullptr) == TESSERA_INVALID_ARGUMENT);
}

TEST_CASE("a norm that no step computed is refused", "[c_api]") {
  Handles all;
  start(all, "zero2", 2);
  float norm = 0;
  CHECK(tessera_engine_grad_norm(all.engine, &norm) == TESSERA_INVALID_ARGUMENT);
  require_done(tessera_engine_step(all.engine, nullptr, ones, nullptr));
  CHECK(tessera_engine_grad_norm(all.engine, &norm) == TESSERA_INVALID_ARGUMENT);
  CHECK_THAT(tessera_last_error(), Contains("grad_norm or max_grad_norm"));
}

TEST_CASE("engines come and go on one runtime", "[c_api]") {
  Handles all;
  start(all, "full_shard", 2, R"({"use_orig_params": true})");
  for (int k = 0; k < 20; ++k) {
    require_done(tessera_runtime_wait(all.runtime));
    tessera_engine_destroy(all.engine);
    all.engine = nullptr;
    require_done(
        tessera_engine_create(all.runtime, all.model, "fully_shard", nullptr, &all.engine));
    require_done(tessera_engine_initialise(all.engine, initial, nullptr));
  }
  CHECK(values_of(all.engine, 0)[3] == initial(nullptr, 0, 3));
  require_done(tessera_runtime_finish(all.runtime));
}

TEST_CASE("a program records a trace and asks it in columns", "[c_api]") {
  const std::string file = temporary("c_api_trace.tessera");
  {
    Handles all;
    open(all, "fully_shard", nullptr, 2, file.c_str());
    require_done(tessera_engine_initialise(all.engine, initial, nullptr));
    for (int k = 0; k < 3; ++k) {
      require_done(tessera_engine_step(all.engine, nullptr, ones, nullptr));
    }
    require_done(tessera_runtime_finish(all.runtime));
  }
  tessera_table* table = nullptr;
  require_done(tessera_query(file.c_str(),
                             "SELECT kind, count(*) AS n, avg(bytes) AS mean, NULL AS missing, "
                             "CASE WHEN kind = 'compute' THEN 1 ELSE 'text' END AS mixed, "
                             "x'00ff' AS bytes "
                             "FROM op_rank WHERE rank = 1 GROUP BY kind ORDER BY kind",
                             &table));
  REQUIRE(tessera_table_column_count(table) == 6);
  REQUIRE(tessera_table_row_count(table) >= 3);
  std::array<tessera_column, 6> columns{};
  for (std::int32_t c = 0; c < 6; ++c) {
    columns[c].struct_size = sizeof columns[c];
    require_done(tessera_table_column(table, c, &columns[c]));
  }
  CHECK(columns[0].type == TESSERA_TEXT);
  CHECK(std::string(columns[0].texts[columns[0].codes[0]]) == "all_gather");
  CHECK(columns[1].type == TESSERA_INTEGER);
  CHECK(columns[1].integers[0] >= 3);
  CHECK(columns[2].type == TESSERA_REAL);
  CHECK(columns[2].nulls == nullptr);
  REQUIRE(columns[3].nulls != nullptr);
  CHECK(columns[3].nulls[0] == 1);
  CHECK(columns[4].type == TESSERA_TEXT);
  REQUIRE(columns[5].type == TESSERA_TEXT);
  CHECK(std::string(columns[5].texts[columns[5].codes[0]]) == "x'00ff'");
  CHECK(tessera_table_column(table, 6, columns.data()) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_table_column(table, -1, columns.data()) == TESSERA_INVALID_ARGUMENT);
  tessera_table_destroy(table);
  tessera_table* none = nullptr;
  CHECK(tessera_query(file.c_str(), "DELETE FROM op", &none) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_query(file.c_str(), "SELECT nothing FROM span", &none) == TESSERA_INVALID_ARGUMENT);
  CHECK(tessera_query("/nowhere.tessera", "SELECT 1", &none) == TESSERA_IO_ERROR);
  CHECK(none == nullptr);
  std::filesystem::remove(file);
}

TEST_CASE("a trace that cannot be written is refused when the runtime is made", "[c_api]") {
  tessera_runtime_options options{};
  options.struct_size = sizeof options;
  options.trace = "/nowhere/run.tessera";
  tessera_runtime* runtime = nullptr;
  CHECK(tessera_runtime_create(&options, &runtime) == TESSERA_IO_ERROR);
  CHECK_THAT(tessera_last_error(), Contains("/nowhere/run.tessera"));
  CHECK(runtime == nullptr);
}

TEST_CASE("null handles are errors, and destroying them does nothing", "[c_api]") {
  float number = 0;
  std::vector<int> codes = {tessera_model_load(nullptr, nullptr),
                            tessera_model_from_json(nullptr, nullptr),
                            tessera_runtime_create(nullptr, nullptr),
                            tessera_runtime_wait(nullptr),
                            tessera_runtime_mean(nullptr, &number, &number),
                            tessera_runtime_poll(nullptr),
                            tessera_runtime_finish(nullptr),
                            tessera_engine_create(nullptr, nullptr, nullptr, nullptr, nullptr),
                            tessera_engine_initialise(nullptr, initial, nullptr),
                            tessera_engine_initialise_from(nullptr, nullptr),
                            tessera_engine_step(nullptr, nullptr, ones, nullptr),
                            tessera_engine_begin(nullptr, TESSERA_FORWARD),
                            tessera_engine_enter(nullptr, ""),
                            tessera_engine_compute(nullptr, "", ones, nullptr),
                            tessera_engine_leave(nullptr, ""),
                            tessera_engine_end(nullptr),
                            tessera_engine_update(nullptr, nullptr),
                            tessera_engine_grad_norm(nullptr, &number),
                            tessera_engine_set_groups(nullptr, nullptr, 0),
                            tessera_engine_add_group(nullptr, nullptr),
                            tessera_engine_change_group(nullptr, 0, nullptr),
                            tessera_export_weights(nullptr, "", 0),
                            tessera_import_weights(nullptr, ""),
                            tessera_engine_get_parameter(nullptr, 0, &number, 1),
                            tessera_engine_set_parameter(nullptr, 0, &number, 1),
                            tessera_engine_set_hook(nullptr, nullptr, nullptr, nullptr),
                            tessera_save(nullptr, "", 0, nullptr),
                            tessera_load(nullptr, "", nullptr, nullptr),
                            tessera_engine_read_shards(nullptr, 0, nullptr, nullptr),
                            tessera_query(nullptr, nullptr, nullptr),
                            tessera_table_column(nullptr, 0, nullptr)};
  for (std::size_t k = 0; k < codes.size(); ++k) {
    INFO("function " << k);
    CHECK(codes[k] == TESSERA_INVALID_ARGUMENT);
  }
  CHECK_THAT(tessera_last_error(), Contains("null"));
  CHECK(tessera_model_parameter_count(nullptr) == -1);
  CHECK(tessera_model_parameter_name(nullptr, 0) == nullptr);
  CHECK(tessera_model_parameter_numel(nullptr, 0) == -1);
  CHECK(tessera_runtime_ranks(nullptr) == -1);
  CHECK(tessera_runtime_first_rank(nullptr) == -1);
  CHECK(tessera_runtime_local_ranks(nullptr) == -1);
  CHECK(tessera_table_row_count(nullptr) == -1);
  CHECK(tessera_table_column_count(nullptr) == -1);
  tessera_runtime_give_up(nullptr, nullptr);
  tessera_model_destroy(nullptr);
  tessera_runtime_destroy(nullptr);
  tessera_engine_destroy(nullptr);
  tessera_table_destroy(nullptr);
}

}  // namespace
