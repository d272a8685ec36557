// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/checks.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "tessera/recording.h"

namespace tessera::cli {
namespace {

struct OpsArguments {
  EngineOptions engine;
  std::int32_t ranks = 8;
  std::int32_t steps = 1;
  std::string format = "lines";
};

constexpr const char* footer = R"(Examples:
  tessera ops examples/models/g3.json --ranks 2
  tessera ops examples/models/g3.json --ranks 2 --param-dtype fp32 --format fsdp

Exit codes: 0 done, 2 bad input.)";

Status print_ops(const OpsArguments& arguments) {
  TESSERA_ASSIGN(const Training training, resolve(arguments.engine));
  Recording recording;
  const auto runtime = make_recording_runtime(arguments.ranks, recording);
  TESSERA_ASSIGN(auto engine, fully_shard(*runtime, training.model, training.fully_shard));
  for (std::int32_t step = 0; step < arguments.steps; ++step) {
    TESSERA_TRY(run_training_step(*engine, training.model, training.training));
  }
  if (arguments.format == "fsdp") {
    for (const std::string& line : to_fsdp_notation(recording)) fmt::print("{}\n", line);
    return {};
  }
  std::int32_t step = -1;
  for (const Record& record : recording.records) {
    const bool known = record.kind == Record::Kind::op || record.kind == Record::Kind::allocate;
    if (known && record.cause.step > step) {
      step = record.cause.step;
      fmt::print("step {}\n", step);
    }
    fmt::print("  {}\n", to_line(recording, record));
  }
  return {};
}

}  // namespace

void add_ops(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<OpsArguments>();
  CLI::App* command =
      app.add_subcommand("ops", "Print what the engine decides, one operation a line, no times");
  command->footer(footer);
  add_engine_options(*command, arguments->engine);
  command->add_option("--ranks", arguments->ranks, "Number of ranks")->check(within(1, 1'000'000));
  command->add_option("--steps", arguments->steps, "Training steps")->check(within(1, 100'000));
  command
      ->add_option("--format", arguments->format,
                   "lines, or fsdp: the notation of PyTorch's stream operations")
      ->check(CLI::IsMember({"lines", "fsdp"}));
  command->callback([arguments, &exit_code] {
    const Status status = print_ops(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
