// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>

#include "cli/command.h"
#include "cli/table.h"
#include "cli/train_log.h"
#include "cli/train_options.h"

namespace tessera::cli {
namespace {

constexpr const char* footer = R"(Examples:
  tessera train examples/models/gpt-tiny.json --data book.txt --batch 8 --steps 500
  mpirun -n 4 tessera train config.json --data tokens.bin --scheme zero3 --dtype bfloat16
  tessera train config.json --data book.txt --runtime simulator --ranks 4

Exit codes: 0 done, 1 a fault of tessera, 2 bad input.)";

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Aio aio_of(const Scheme& scheme) {
  const auto* zero3 = std::get_if<Zero3Options>(&scheme);
  return zero3 == nullptr ? Aio{} : zero3->aio;
}

void print_header(const TrainArguments& arguments, const TrainRun& run, const Corpus& corpus,
                  const Trainer& trainer, Carrier& carrier) {
  const Rank ranks = carrier.seam().world().count();
  fmt::print("{}: {} parameters, {} on {} {} ({}), {}\n", run.model.name,
             with_separators(run.model.parameter_count().value), name_of(run.options.scheme), ranks,
             ranks == 1 ? "rank" : "ranks", carrier.name(), name_of(run.options.dtype));
  fmt::print("{}: {} tokens, {} samples of {} an epoch; {} tokens a step\n", arguments.data,
             with_separators(corpus.tokens()), with_separators(trainer.samples_per_epoch()),
             run.options.step.sequence_length, with_separators(trainer.tokens_per_step()));
  std::fflush(stdout);
}

// One training run.
class TrainProgram {
 public:
  explicit TrainProgram(const TrainArguments& arguments) : arguments_(arguments) {}

  Status run() {
    const Launch launch = read_launch();
    const Rank expected = ranks_of(arguments_.carrier, launch);
    TESSERA_ASSIGN(run_, resolve_train(arguments_, expected));
    TESSERA_ASSIGN(const Corpus corpus, open_corpus(arguments_, run_.model));
    // Its operations may need the trainer until it is finished, so it goes first.
    std::unique_ptr<Trainer> trainer;
    std::unique_ptr<Carrier> carrier;
    TESSERA_ASSIGN(carrier, open_carrier(arguments_.carrier, launch, aio_of(run_.options.scheme)));
    const Rank ranks = carrier->seam().world().count();
    if (ranks != expected) {  // the launcher said nothing
      TESSERA_ASSIGN(run_, resolve_train(arguments_, ranks));
    }
    run_.options.progress = [&carrier] { static_cast<void>(carrier->poll()); };
    TESSERA_ASSIGN(trainer, Trainer::create(carrier->seam(), run_.model, corpus, run_.options));
    const bool prints = carrier->prints();
    if (prints) print_warnings(run_.warnings);
    if (prints && !arguments_.quiet) {
      print_header(arguments_, run_, corpus, *trainer, *carrier);
    }
    TESSERA_TRY(loop(*trainer, *carrier, prints));
    TESSERA_TRY(trainer->finish());
    return carrier->finish();
  }

 private:
  TrainFigures figures(const Trainer& trainer, Rank ranks, bool prints) const {
    const auto samples = static_cast<double>(trainer.tokens_per_step()) /
                         static_cast<double>(run_.options.step.sequence_length);
    return {
        .steps = arguments_.steps,
        .first = trainer.steps_done(),
        .flops_per_step = samples * flops_per_sample(run_.model, run_.options.step.sequence_length),
        .peak_flops = arguments_.peak_flops * ranks,
        .log_every = arguments_.log_every,
        .quiet = arguments_.quiet || !prints};
  }

  Status loop(Trainer& trainer, Carrier& carrier, bool prints) {
    TrainLog log(figures(trainer, carrier.seam().world().count(), prints));
    if (prints && !arguments_.json.empty()) {
      TESSERA_TRY(log.open_json(arguments_.json, trainer.steps_done() > 0));
    }
    while (trainer.steps_done() < arguments_.steps) {
      const auto begin = std::chrono::steady_clock::now();
      TESSERA_ASSIGN(const TrainedStep step, trainer.step());
      if (prints) TESSERA_TRY(log.step(step, seconds_since(begin), carrier.peak_reserved()));
    }
    return {};
  }

  const TrainArguments& arguments_;
  TrainRun run_;
};

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train", "Train a language model, on one process or on several");
  command->footer(footer);
  add_train_options(*command, *arguments);
  command->callback([arguments, &exit_code] {
    const Status status = TrainProgram(*arguments).run();
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
