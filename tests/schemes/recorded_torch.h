// SPDX-License-Identifier: Apache-2.0
// Random runs of FSDP1 and DDP as tests/golden/torch_2_15/record.py recorded them, played again.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/require_ok.h"

namespace tessera::test {

using RunJson = nlohmann::json;

inline RunJson recorded_runs(const std::string& name, const std::string& folder = "torch_2_15") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + folder + "/" + name);
  RunJson runs = RunJson::parse(file);
  CHECK(runs.size() >= 12);
  return runs;
}

/// The lines of an engine: `line_of` gives that of a record, or nothing.
using MakeRecorded = std::function<Result<std::unique_ptr<Engine>>(Runtime&, const Model&)>;
using LineOf = std::function<std::string(const Recording&, const Record&)>;

inline std::vector<std::string> play_again(const RunJson& run, const MakeRecorded& make,
                                           const LineOf& line_of) {
  const Model model = require_value(parse_model(run["tree"].dump(), "tree"));
  Recording recording;
  const auto runtime = make_recording_runtime(run["ranks"].get<Rank>(), recording);
  const auto engine = require_value(make(*runtime, model));
  std::vector<std::string> lines;
  std::size_t next = recording.records.size();
  TrainingSteps steps(*engine, model);
  for (const RunJson& pass : run["passes"]) {
    const bool trains = pass[0] == "train";
    lines.push_back(pass[0]);
    const bool syncs = pass[1].value("sync", true);
    const auto kind = !trains ? TrainingPass::Kind::step
                      : syncs ? TrainingPass::Kind::train
                              : TrainingPass::Kind::accumulate;
    require_ok(steps.run({.passes = {{kind, ""}}}));
    for (; next < recording.records.size(); ++next) {
      const Record& record = recording.records[next];
      if (record.cause.phase == Phase::optimizer) continue;
      std::string line = line_of(recording, record);
      if (!line.empty()) lines.push_back(std::move(line));
    }
  }
  return lines;
}

inline void require_equal_lines(const RunJson& run, const std::vector<std::string>& actual) {
  const std::vector<std::string> expected = run["lines"];
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    INFO("seed " << run["seed"] << " line " << i << " " << run["options"].dump() << run["tree"]
                 << run["plan"] << run["passes"].dump());
    REQUIRE(actual[i] == expected[i]);
  }
  CHECK(actual.size() == expected.size());
}

}  // namespace tessera::test
