// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "tessera/recording.h"

namespace tessera::cli {
namespace {

struct OpsArguments {
  EngineOptions engine;
  std::int32_t ranks = 8;
  std::int32_t steps = 1;
  std::string format = "lines";
};

constexpr const char* ops_examples = R"(Examples:
  tessera ops examples/models/g3.json --ranks 2
  tessera ops examples/models/g3.json --ranks 2 --param-dtype fp32 --format fsdp
  tessera ops examples/models/g3.json --ranks 2 --scheme shard_grad_op --param-dtype fp32 \
    --steps 3 --format fsdp
  tessera ops examples/models/g3.json --ranks 2 --scheme replicate --steps 3 --format ddp
  tessera ops examples/models/g3.json --scheme zero3 --policy compatible --format deepspeed

Exit codes: 0 done, 2 bad input.)";

const char* format_of(const Scheme& scheme) {
  if (std::holds_alternative<ReplicateOptions>(scheme)) return "ddp";
  if (std::holds_alternative<ShardedDataParallelOptions>(scheme)) return "fairscale";
  return std::holds_alternative<Zero3Options>(scheme) ? "deepspeed" : "fsdp";
}

// The notation of the runs that were recorded with the scheme's model.
Result<std::vector<std::string>> notation(const OpsArguments& arguments, const Scheme& scheme,
                                          const Recording& recording, const Engine& engine) {
  if (arguments.format != format_of(scheme)) {
    return Status(Code::invalid_argument,
                  fmt::format("--format {} cannot show the scheme {}: use --format {}",
                              arguments.format, name_of(scheme), format_of(scheme)));
  }
  return engine.notation(recording);
}

Status print_lines(const OpsArguments& arguments, const Scheme& scheme, const Recording& recording,
                   const Engine& engine) {
  if (arguments.format != "lines") {
    TESSERA_ASSIGN(const auto lines, notation(arguments, scheme, recording, engine));
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

// What was decided before a failure is printed, too.
Status print_ops(const OpsArguments& arguments) {
  TESSERA_ASSIGN(const Training training, resolve(arguments.engine, arguments.ranks));
  print_warnings(training.warnings);
  Recording recording;
  const auto runtime = make_recording_runtime(arguments.ranks, recording);
  TESSERA_ASSIGN(auto engine, make_engine(*runtime, training.model, training.scheme));
  Status ran;
  for (std::int32_t step = 0; step < arguments.steps && ran.ok(); ++step) {
    ran = run_training_step(*engine, training.model, training.training);
  }
  TESSERA_TRY(print_lines(arguments, training.scheme, recording, *engine));
  return ran;
}

}  // namespace

void add_ops(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<OpsArguments>();
  CLI::App* command =
      app.add_subcommand("ops", "Print what the engine decides, one operation a line, no times");
  command->footer(ops_examples);
  add_engine_options(*command, arguments->engine);
  add_passes_option(*command, arguments->engine);
  command->add_option("--ranks", arguments->ranks, "Number of ranks")->check(within(1, 1'000'000));
  command->add_option("--steps", arguments->steps, "Training steps, or how often --passes")
      ->check(within(1, 100'000));
  command
      ->add_option("--format", arguments->format,
                   "lines; or as recorded: fsdp, ddp (PyTorch's stream operations, buckets), "
                   "deepspeed (ZeRO-3's fetches), fairscale (reductions and broadcasts of owners)")
      ->check(CLI::IsMember({"lines", "fsdp", "ddp", "deepspeed", "fairscale"}));
  command->callback([arguments, &exit_code] {
    const Status status = print_ops(*arguments);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
