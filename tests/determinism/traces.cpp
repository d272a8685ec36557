// SPDX-License-Identifier: Apache-2.0
// Simulates every scheme and writes a trace of each: the same program by two compilers must write
// the same bytes.
//
//   traces MODELS FOLDER [SEED]      MODELS: the folder of examples/models
#include <iostream>
#include <string>

#include "tessera/sim/simulate.h"
#include "tessera/storage/trace_writer.h"

namespace {

using namespace tessera;

struct Case {
  std::string scheme, model, cluster;
  Index nodes = 1;
  std::uint64_t seed = 0;
};

Scheme in_nodes(Scheme scheme) {
  if (auto* fsdp1 = std::get_if<Fsdp1Options>(&scheme)) fsdp1->shard_group = 8;
  return scheme;
}

Status write_trace(const std::string& models, const Case& run, const std::string& path) {
  TESSERA_ASSIGN(const Model model, load_model(models + "/" + run.model + ".json"));
  sim::SimulateOptions options{
      .seed = run.seed, .jitter = 0.02, .slow_ranks = {{.rank = 5, .factor = 1.2}}, .steps = 2};
  TESSERA_ASSIGN(options.cluster, sim::load_cluster(run.cluster, run.nodes));
  TESSERA_ASSIGN(options.scheme, scheme_named(run.scheme));
  if (run.scheme.starts_with("hybrid")) options.scheme = in_nodes(options.scheme);
  options.training = {.batch = 1, .sequence_length = 1024};
  options.recorded_ranks = {0, 1, 5};
  TESSERA_ASSIGN(auto writer, storage::TraceWriter::create(path, {}));
  options.sink = writer.get();
  TESSERA_TRY(sim::simulate(model, options).status());
  return writer->finish();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return std::cerr << "usage: traces MODELS FOLDER [SEED]\n", 2;
  const std::uint64_t seed = count > 3 ? std::stoull(arguments[3]) : 7;
  for (const std::string& scheme : scheme_names()) {
    for (const Case& run : {Case{scheme, "gpt2", "dgx-a100", 2, seed},
                            Case{scheme, "llama-3-8b", "dgx-h100", 2, seed + 1}}) {
      const std::string path =
          std::string(arguments[2]) + "/" + scheme + "." + run.model + ".tessera";
      const Status written = write_trace(arguments[1], run, path);
      if (!written) return std::cerr << path << ": " << written.message() << '\n', 1;
    }
  }
}
