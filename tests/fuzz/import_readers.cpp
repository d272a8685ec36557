// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "exchange/import/format.h"
#include "exchange/parse/pickle.h"
#include "tessera/analysis/run.h"
#include "tessera/exchange/import.h"
#include "tests/exchange/made_profile.h"
#include "tests/fuzz/readers.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

std::string data_file(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR "/tests/exchange/data/") + name;
}

std::vector<std::string> paths_of(const std::string& folder, const Files& files) {
  std::vector<std::string> paths;
  for (const auto& [name, content] : files) paths.push_back((fs::path(folder) / name).string());
  return paths;
}

/// A report of what was imported.
Status look_at(const std::string& path) {
  const auto trace = analysis::Trace::open(path);
  INFO(trace.status().message());
  CHECK(trace.ok());
  if (trace.ok()) {
    const auto report = analysis::report_of(*trace);
    INFO(report.status().message());
    CHECK(report.ok());
  }
  fs::remove(path);
  return {};
}

Status read_alone(const std::vector<std::string>& paths) {
  exchange::ImportedRun run;
  for (const std::string& path : paths) {
    TESSERA_ASSIGN(exchange::SourceFile source, exchange::SourceFile::open(path));
    TESSERA_ASSIGN(const exchange::Format* const format, exchange::format_of(source));
    TESSERA_TRY(format->read(source, {.spans_max = exchange::ImportOptions().spans_max}, run));
    if (format->conclude != nullptr) TESSERA_TRY(format->conclude(run));
  }
  return {};
}

FuzzedReader import_reader(std::string name, std::vector<Files> seeds) {
  const auto read = [seeds](const std::string& folder, std::size_t seed, bool whole) -> Status {
    const std::vector<std::string> paths = paths_of(folder, seeds[seed]);
    if (!whole) return read_alone(paths);
    const std::string out = folder + "/out";
    const auto done = exchange::import_traces(paths, out);
    if (done.ok()) return look_at(out);
    CHECK_FALSE(fs::exists(out));
    INFO(done.status().message());
    CHECK(done.status().message().ends_with('.'));
    return done.status();
  };
  return {std::move(name), std::move(seeds), read};
}

FuzzedReader import_reader(std::string name, const std::vector<std::vector<std::string>>& files) {
  std::vector<Files> seeds;
  for (const std::vector<std::string>& together : files) {
    Files& seed = seeds.emplace_back();
    for (const std::string& file : together) seed.merge(files_at(data_file(file)));
  }
  return import_reader(std::move(name), std::move(seeds));
}

std::vector<Files> profiles() {
  MadeProfile plan;
  plan.steps = plan.layers = plan.kernels = 1;
  MadeProfile rocm = plan, numbered = plan;
  rocm.rocm = true;
  numbered.sequence = true;
  numbered.python_functions = 2;
  numbered.nccl_arguments = "host";
  std::vector<Files> seeds;
  for (const MadeProfile& p : {plan, rocm, numbered}) seeds.push_back({{"rank0", made_profile(p)}});
  seeds.push_back(files_at(data_file("torch-ddp-0.json.gz")));
  return seeds;
}

/// Looks at everything as far as a reader may go.
void walk(exchange::TreeValue value, int depth) {
  static_cast<void>(value.integer());
  static_cast<void>(value.real());
  static_cast<void>(value.text().size());
  static_cast<void>(value["size"].kind());
  if (depth > 20) return;
  walk(value.arguments(), depth + 1);
  for (exchange::TreeItems items(value); items.next();) walk(items.value(), depth + 1);
}

}  // namespace

std::vector<FuzzedReader> import_readers() {
  std::vector<FuzzedReader> all;
  all.push_back(import_reader("kineto", profiles()));
  all.push_back(import_reader("snapshot", {{"memory_snapshot.pickle"}}));
  all.push_back(
      import_reader("flight", {{"flight_missing_rank_0.pickle"},
                               {"flight_missing_rank_0.json"},
                               {"flight_mismatch_rank_0.pickle", "flight_mismatch_rank_1.pickle"},
                               {"flight_missing_rank_0.json", "flight_missing_rank_1.json",
                                "flight_missing_rank_2.json"}}));
  all.push_back(import_reader("nsys", {{"nsys.sqlite"}}));
  all.push_back(import_reader("rpd", {{"rpd.rpd"}}));
  all.push_back(import_reader("rocpd", {{"rocpd3.db"}, {"rocpd4.db"}}));
  all.push_back(import_reader("chakra", {{"chakra.0.et"}}));
  all.push_back(import_reader("chakra_json", {{"chakra_feeder.json"}, {"chakra_jsonizer.json"}}));
  all.push_back(import_reader("execution", {{"execution_trace_102.json"}}));
  all.push_back(
      import_reader("inspector", {{"inspector.0.log"}, {"inspector.0.log", "inspector.1.log"}}));
  return all;
}

FuzzedReader pickle_reader() {
  std::vector<Files> seeds;
  for (int protocol = 0; protocol < 6; ++protocol) {
    seeds.push_back(files_at(data_file("values.p" + std::to_string(protocol))));
  }
  const auto read = [seeds](const std::string& folder, std::size_t seed, bool) -> Status {
    const fs::path path = fs::path(folder) / seeds[seed].begin()->first;
    std::string bytes = files_at(path).begin()->second;
    const auto size = static_cast<std::int64_t>(bytes.size());
    TESSERA_ASSIGN(const exchange::Tree tree, exchange::parse_pickle(std::move(bytes)));
    CHECK(tree.memory() <= 3 * size + (25 << 20));
    walk(tree.root(), 0);
    return {};
  };
  return {"pickle", seeds, read};
}

}  // namespace tessera::test
