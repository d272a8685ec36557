// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "cli/command.h"
#include "cli/report/graphs_text.h"
#include "cli/report/table.h"
#include "cli/train/peak_flops.h"
#include "cli/train/trace_name.h"
#include "cli/train/train_log.h"
#include "cli/train/train_options.h"
#include "cli/train/train_trace.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::cli {
namespace {

constexpr const char* train_examples = R"(Examples:
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
                  const Trainer& trainer, const OpenedRuntime& opened, const PeakFlops& peak) {
  const Rank ranks = opened.runtime->world().count();
  fmt::print("{}: {} parameters, {} on {} {} ({}), {}\n", run.model.name,
             with_separators(run.model.parameter_count().value), name_of(run.options.scheme), ranks,
             ranks == 1 ? "rank" : "ranks", opened.name, name_of(run.options.dtype));
  fmt::print("{}: {} tokens, {} samples of {} an epoch; {} tokens a step\n", arguments.data,
             with_separators(corpus.tokens()), with_separators(trainer.samples_per_epoch()),
             run.options.step.sequence_length, with_separators(trainer.tokens_per_step()));
  if (peak.value > 0) {
    fmt::print("MFU refers to {} a rank, {}\n", readable_flops(peak.value), peak.name);
  }
  std::fflush(stdout);
}

bool has_owners(const Scheme& scheme) {
  return std::holds_alternative<ShardedDataParallelOptions>(scheme);
}

// One training run.
class TrainProgram {
 public:
  explicit TrainProgram(const TrainArguments& arguments) : arguments_(arguments) {}
  ~TrainProgram() { close(); }

  Status run() {
    launch_ = read_launch();
    const Rank expected = ranks_of(arguments_.runtime, launch_);
    TESSERA_ASSIGN(run_, resolve_train(arguments_, expected));
    TESSERA_ASSIGN(const TrainData data, open_data(arguments_, run_.model));
    const bool first = launch_.rank == 0 || !launch_.by_launcher;
    if (first && !arguments_.trace.empty()) {
      TESSERA_TRY(check_trace_name("--trace", arguments_.trace));
      TESSERA_ASSIGN(trace_, storage::TraceWriter::create(arguments_.trace));
    }
    TESSERA_ASSIGN(opened_,
                   open_runtime(arguments_.runtime, launch_,
                                {aio_of(run_.options.scheme), trace_.get(),
                                 has_owners(run_.options.scheme), !arguments_.trace.empty()}));
    if (ranks() != expected) {  // the launcher said nothing
      TESSERA_ASSIGN(run_, resolve_train(arguments_, ranks()));
    }
    const Status trained = train(data);
    close();  // what it still knows belongs into the trace
    const Status traced = trace_ ? trace_->finish() : Status{};
    return trained.ok() ? traced : trained;
  }

 private:
  void close() { close_runtime(opened_, arguments_.runtime.deadline_s); }
  Rank ranks() const { return opened_.runtime->world().count(); }
  bool prints() const { return opened_.prints(); }

  Status train(const TrainData& data) {
    data.apply(arguments_.validation, run_.options);
    run_.options.progress = [this] { static_cast<void>(opened_.runtime->poll()); };
    if (run_.options.threads == 0) run_.options.threads = threads();
    if (prints()) {
      peak_ = peak_flops_of(arguments_.peak_flops, opened_, run_.options.dtype,
                            run_.options.threads, arguments_.runtime.tf32);
    }
    if (trace_) trace_->begin(trace_run(arguments_, run_, launch_, opened_, peak_));
    TESSERA_ASSIGN(trainer_,
                   Trainer::create(*opened_.runtime, run_.model, data.corpus, run_.options));
    if (trace_) describe_units();
    // How often a simulation asks whether a file is written must not depend on the disk.
    TESSERA_ASSIGN(TrainFiles files,
                   TrainFiles::begin(arguments_.files, *trainer_, opened_.name != "simulator"));
    if (prints()) print_warnings(run_.warnings);
    if (prints() && !arguments_.quiet) {
      print_header(arguments_, run_, data.corpus, *trainer_, opened_, peak_);
    }
    TESSERA_TRY(loop(files));
    TESSERA_TRY(files.finish());
    TESSERA_TRY(trainer_->finish());
    TESSERA_TRY(opened_.runtime->finish());
    say_graphs();
    return {};
  }

  // Who asks for graphs wants to know how much of the run they are.
  void say_graphs() {
    const GraphCounts counts = opened_.graphs();
    if (counts.all() == 0) return;
    const std::string text = graphs_text(counts);
    if (prints() && !arguments_.quiet) fmt::print("{}\n", text);
    if (trace_) {
      trace_->diagnostic({.severity = TraceDiagnostic::Severity::info,
                          .code = "cuda_graphs",
                          .rank = 0,
                          .message = text});
    }
  }

  int threads() const {
    const auto cores = static_cast<Rank>(std::thread::hardware_concurrency());
    return std::max(1, cores / std::max(1, launch_.local_ranks));
  }

  void describe_units() {
    const auto units = trainer_->engine().units();
    for (std::size_t u = 0; u < units.size(); ++u) {
      trace_->unit({static_cast<std::int32_t>(u), units[u].name, units[u].parameters,
                    units[u].numel, units[u].padding});
    }
  }

  TrainFigures figures() const {
    const auto samples = static_cast<double>(trainer_->tokens_per_step()) /
                         static_cast<double>(run_.options.step.sequence_length);
    return {
        .steps = arguments_.steps,
        .first = trainer_->steps_done(),
        .flops_per_step = samples * flops_per_sample(run_.model, run_.options.step.sequence_length),
        .peak_flops = peak_.value * ranks(),
        .log_every = arguments_.log_every,
        .quiet = arguments_.quiet || !prints()};
  }

  bool validates_after(std::int64_t step) const {
    const std::int64_t every = arguments_.validation.every;
    return arguments_.validation.wanted() &&
           (step == arguments_.steps || (every > 0 && step % every == 0));
  }

  Status loop(TrainFiles& files) {
    TrainLog log(figures());
    if (prints() && !arguments_.json.empty()) {
      TESSERA_TRY(log.open_json(arguments_.json, trainer_->steps_done() > 0));
    }
    while (trainer_->steps_done() < arguments_.steps) {
      const auto begin = std::chrono::steady_clock::now();
      TESSERA_ASSIGN(const TrainedStep step, trainer_->step());
      const double seconds = seconds_since(begin);
      std::optional<float> validation;
      if (validates_after(step.step)) {
        TESSERA_ASSIGN(validation, trainer_->validate());
      }
      if (prints()) {
        TESSERA_TRY(log.step(
            {step, seconds, opened_.runtime->peak_reserved(), validation, opened_.graphs()}));
      }
      TESSERA_TRY(files.step_done());
    }
    return {};
  }

  const TrainArguments& arguments_;
  Launch launch_;
  TrainRun run_;
  PeakFlops peak_;
  std::unique_ptr<storage::TraceWriter> trace_;
  std::unique_ptr<Trainer> trainer_;  // what the runtime still has to do may need it
  OpenedRuntime opened_;
};

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train", "Train a language model, on one process or on several");
  command->footer(train_examples);
  add_train_options(*command, *arguments);
  command->callback([arguments, &exit_code] {
    const Status status = TrainProgram(*arguments).run();
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
