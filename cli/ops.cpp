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
  tessera ops examples/models/g3.json --ranks 2 --scheme shard_grad_op --param-dtype fp32 \
    --steps 3 --format fsdp
  tessera ops examples/models/g3.json --ranks 2 --scheme replicate --steps 3 --format ddp

Exit codes: 0 done, 2 bad input.)";

// The notation of the runs that were recorded with the scheme's model.
Result<std::vector<std::string>> notation(const OpsArguments& arguments, const Scheme& scheme,
                                          const Recording& recording,
                                          const std::vector<UnitInfo>& units) {
  if (std::holds_alternative<ShardedDataParallelOptions>(scheme)) {
    return Status(Code::invalid_argument,
                  fmt::format("--format {} cannot show the scheme {}: use --format lines",
                              arguments.format, name_of(scheme)));
  }
  const bool replicates = std::holds_alternative<ReplicateOptions>(scheme);
  if (replicates != (arguments.format == "ddp")) {
    return Status(Code::invalid_argument,
                  fmt::format("--format {} cannot show the scheme {}: use --format {}",
                              arguments.format, name_of(scheme), replicates ? "ddp" : "fsdp"));
  }
  if (replicates) return to_ddp_notation(recording);
  const bool flat = std::holds_alternative<Fsdp1Options>(scheme);
  return flat ? to_fsdp1_notation(recording, units) : to_fsdp_notation(recording);
}

Status print_ops(const OpsArguments& arguments) {
  TESSERA_ASSIGN(const Training training, resolve(arguments.engine));
  Recording recording;
  const auto runtime = make_recording_runtime(arguments.ranks, recording);
  TESSERA_ASSIGN(auto engine, make_engine(*runtime, training.model, training.scheme));
  for (std::int32_t step = 0; step < arguments.steps; ++step) {
    TESSERA_TRY(run_training_step(*engine, training.model, training.training));
  }
  if (arguments.format != "lines") {
    const auto units = engine->units();
    TESSERA_ASSIGN(const auto lines, notation(arguments, training.scheme, recording, units));
    for (const std::string& line : lines) fmt::print("{}\n", line);
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
                   "lines; or as recorded from PyTorch: fsdp (stream operations), ddp (buckets)")
      ->check(CLI::IsMember({"lines", "fsdp", "ddp"}));
  command->callback([arguments, &exit_code] {
    const Status status = print_ops(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
