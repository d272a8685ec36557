// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "cli/command.h"
#include "cli/report/counted.h"
#include "cli/report/graphs_text.h"
#include "cli/report/table.h"
#include "cli/stop_signal.h"
#include "cli/text_file.h"
#include "cli/trace_warning.h"
#include "cli/train/data_warnings.h"
#include "cli/train/named_files.h"
#include "cli/train/peak_flops.h"
#include "cli/train/resumed_run.h"
#include "cli/train/run_facts.h"
#include "cli/train/run_files.h"
#include "cli/train/trace_name.h"
#include "cli/train/train_log.h"
#include "cli/train/train_options.h"
#include "cli/train/train_trace.h"
#include "engine/text/rank_name.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::cli {
namespace {

constexpr const char* train_examples = R"(Examples:
  tessera train examples/models/gpt-tiny.json --data book.txt --batch 8 --steps 500
  tessera train run.toml --steps 1000
  mpirun -n 4 tessera train config.json --data tokens.bin --scheme zero3 --dtype bfloat16
  tessera train config.json --data book.txt --runtime simulator --ranks 4

Exit codes: 0 done, 1 a fault of tessera, 2 bad input, 130, 138 or 143 stopped by a signal.)";

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
  fmt::print("{}: {}, {} on {} ({}), {}\n", run.model.name,
             counted(run.model.parameter_count().value, "parameter"), name_of(run.options.scheme),
             counted(ranks, "rank"), opened.name, name_of(run.options.dtype));
  const std::string documents =
      corpus.documents() > 0 ? " of " + counted(corpus.documents(), "document") : "";
  fmt::print("{}: {} tokens{}, {} of {} an epoch; {} tokens a step\n",
             fmt::join(arguments.data.files, ","), with_separators(corpus.tokens()), documents,
             counted(trainer.samples_per_epoch(), "sample"), run.options.step.sequence_length,
             with_separators(trainer.tokens_per_step()));
  if (const auto packed = trainer.packed()) {
    const auto share = [](std::int64_t part, std::int64_t all) {
      return 100 * static_cast<double>(part) / static_cast<double>(all);
    };
    fmt::print("documents are packed: samples are {:.1f} % full, {:.1f} % of that is learned\n",
               share(packed->places, packed->samples * run.options.step.sequence_length),
               share(packed->targets, packed->places));
  }
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
    stop_on_signals();
    launch_ = read_launch();
    const Rank expected = ranks_of(arguments_.runtime, launch_);
    TESSERA_TRY(check_named_files(arguments_));
    TESSERA_ASSIGN(run_, resolve_train(arguments_, expected));
    TESSERA_ASSIGN(const TrainData data, open_data(arguments_, run_.model));
    TESSERA_TRY(open_trace());
    TESSERA_ASSIGN(
        opened_,
        open_runtime(arguments_.runtime, launch_,
                     {aio_of(run_.options.scheme), trace_.get(), has_owners(run_.options.scheme),
                      !arguments_.trace.empty(), names_rank(arguments_.trace), run_.options.fp8}));
    if (ranks() != expected) {  // the launcher said nothing
      TESSERA_ASSIGN(run_, resolve_train(arguments_, ranks()));
    }
    Status trained = agree_on(facts_of(arguments_, run_, data));
    if (trained.ok()) trained = train(data);
    close();  // what it still knows belongs into the trace
    if (is_refused(trained)) return trained;
    const Status traced = finish_trace();
    return trained.ok() ? traced : trained;
  }

  /// The exit code of a run that a signal ended before its last step; 0: none did. Launchers kill
  /// what still runs when a process ends with another code than 0, so only rank 0 does, which is
  /// the last to have something to do.
  int exit_code() const { return was_stopped() && launch_.rank == 0 ? exit_stopped(stop_) : 0; }

 private:
  Status open_trace() {
    const bool first = launch_.rank == 0 || !launch_.by_launcher;
    if (arguments_.trace.empty() || !(first || names_rank(arguments_.trace))) return {};
    if (names_rank(arguments_.trace) && runtime_of(arguments_.runtime, launch_) == "simulator") {
      return Status(Code::invalid_argument,
                    fmt::format("--trace {}: the simulator's ranks are one program and have one "
                                "trace: leave {{rank}} out",
                                arguments_.trace));
    }
    const std::string name = name_of_rank(arguments_.trace, launch_.rank);
    TESSERA_TRY(check_trace_name("--trace", name));
    TESSERA_ASSIGN(trace_, storage::TraceWriter::create(
                               name, {.clock = steady_time, .warn = [this](auto& said) {
                                        if (begun_) warn_of_recording(said);
                                      }}));
    return {};
  }

  // Then there is nothing to tell, and no trace takes the place of an earlier one.
  bool is_refused(const Status& trained) const {
    const Code code = trained.code();
    return !trainer_ && (code == Code::invalid_argument || code == Code::not_supported);
  }

  // A disk that is full takes a part of the trace, not the training.
  Status finish_trace() {
    if (!begun_) return {};  // so there is nothing to tell
    const Status traced = trace_->finish();
    if (traced.code() != Code::io_error) return traced;
    print_warnings({traced.message()});
    return {};
  }

  // What is saved is what --resume goes on with; weights are exported at the end of training only.
  Status stop(TrainFiles& files) {
    const Status saved = files.stop();
    const std::string why = fmt::format(
        "{}; {}", stop_sentence(stop_, trainer_->steps_done(), arguments_.steps), files.way_back());
    if (trace_) {
      trace_->diagnostic({.severity = TraceDiagnostic::Severity::warning,
                          .code = name_of(Code::cancelled),
                          .message = why});
    }
    TESSERA_TRY(saved);
    TESSERA_TRY(trainer_->finish());
    TESSERA_TRY(opened_.runtime->finish());
    if (prints()) say(why);
    return {};
  }

  // Several processes see a signal at different steps, so they tell one another after each. Where
  // they cannot (GPUs without MPI), each ends where it waits for others.
  Status look_for_stop() {
    if (opened_.alone()) {
      stop_ = stop_signal();
    } else if (agrees_) {
      const auto signals = opened_.process->exchange(std::to_string(stop_signal()));
      agrees_ = signals.status().code() != Code::not_supported;
      if (!agrees_) return {};
      TESSERA_TRY(signals.status());
      for (const std::string& signal : *signals) {
        if (stop_ == 0) stop_ = std::atoi(signal.c_str());
      }
    }
    return {};
  }

  bool was_stopped() const {
    return stop_ != 0 && trainer_ && trainer_->steps_done() < arguments_.steps;
  }
  void close() { close_runtime(opened_, arguments_.runtime.deadline_s); }
  Rank ranks() const { return opened_.runtime->world().count(); }
  bool prints() const { return opened_.prints(); }

  // The simulator's ranks are one program; on GPUs that torchrun starts it is said that nobody
  // compared.
  Status agree_on(const Facts& facts) {
    if (opened_.process == nullptr) return {};
    const Status agreed = agree(*opened_.process, facts);
    if (agreed.code() != Code::not_supported) return agreed;
    if (!compared_) return {};
    compared_ = false;
    run_.warnings.push_back("options and data of ranks were not compared: " + agreed.message());
    return {};
  }

  Status train(const TrainData& data) {
    data.apply(arguments_.validation, run_.options);
    run_.options.progress = [this] { static_cast<void>(opened_.runtime->poll()); };
    if (run_.options.threads == 0) run_.options.threads = threads();
    if (prints()) {
      peak_ = peak_flops_of(arguments_.peak_flops, opened_, run_.options.dtype,
                            run_.options.threads, arguments_.runtime.tf32);
    }
    if (trace_) {
      begun_ = true;
      trace_->begin(trace_run(arguments_, run_, launch_, opened_, peak_));
    }
    TESSERA_ASSIGN(trainer_,
                   Trainer::create(*opened_.runtime, run_.model, data.corpus, run_.options));
    if (trace_) describe_units();
    // How often a simulation asks whether a file is written must not depend on the disk.
    TESSERA_ASSIGN(TrainFiles files,
                   TrainFiles::begin(arguments_.files, *trainer_,
                                     {.model = run_.model,
                                      .lora = run_.lora,
                                      .steps = arguments_.steps,
                                      .asynchronous = opened_.name != "simulator",
                                      .prints = prints(),
                                      .model_path = arguments_.engine.model_path,
                                      .tokenizer = arguments_.data.tokenizer,
                                      .numeric = numeric_facts(arguments_, run_, *trainer_)}));
    // Weights and places in the data that ranks read from files of their own.
    TESSERA_TRY(agree_on(files.facts(*trainer_)));
    for (std::string& warning : trainer_->engine().warnings()) {
      run_.warnings.push_back(std::move(warning));
    }
    for (const std::string& warning :
         data_warnings(arguments_, data, *trainer_, run_.options.step.sequence_length)) {
      run_.warnings.push_back(warning);
    }
    if (trainer_->steps_done() >= arguments_.steps) {
      run_.warnings.push_back(fmt::format(
          "the run to resume has {} steps behind it, and --steps is {}: nothing is left to train",
          trainer_->steps_done(), arguments_.steps));
    }
    if (prints()) print_warnings(run_.warnings);
    if (prints()) {
      TESSERA_TRY(write_run_files(arguments_, run_.options.threads, opened_.name, ranks()));
    }
    if (prints() && !arguments_.quiet) {
      print_header(arguments_, run_, data.corpus, *trainer_, opened_, peak_);
    }
    const Status looped = loop(files);
    if (looped.code() == Code::invalid_argument) {
      return Status(looped.code(), fmt::format("{}; {}", looped.message(), files.way_back()));
    }
    TESSERA_TRY(looped);
    if (was_stopped()) return stop(files);
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

  struct Skipped {
    std::int64_t all = 0;     // steps of the run
    std::int64_t plain = 0;   // skipped without a loss scale
    std::int64_t scaled = 0;  // skipped until the loss scale fits, which is as it should be
  };

  // Who asks for weights should know that they learned less than asked for.
  static void say_skipped(const Skipped& steps) {
    if (steps.plain > 0) {
      print_warnings(
          {fmt::format("{} {} skipped, as the gradients were no finite numbers: lower the "
                       "learning rate, or look at the data",
                       steps.plain, steps.plain == 1 ? "step was" : "steps were")});
    }
    if (steps.scaled > 0 && steps.scaled == steps.all) {
      print_warnings({fmt::format(
          "all of the {} were skipped, as gradients overflowed in float16: nothing was learned; "
          "lower --loss-scale, from which it halves with each, or train for longer",
          counted(steps.all, "step"))});
    }
  }

  Status loop(TrainFiles& files) {
    TrainLog log(figures());
    if (prints()) TESSERA_TRY(log.open(arguments_.log));
    TESSERA_TRY(look_for_stop());
    std::optional<float> lost;  // the last step's loss, if it is no number
    Skipped skipped;
    while (trainer_->steps_done() < arguments_.steps && stop_ == 0) {
      const auto begin = std::chrono::steady_clock::now();
      TESSERA_ASSIGN(const TrainedStep step, trainer_->step());
      const double seconds = seconds_since(begin);
      std::optional<float> validation;
      if (validates_after(step.step)) {
        TESSERA_ASSIGN(validation, trainer_->validate());
      }
      if (prints()) {
        log.step({step, seconds, opened_.runtime->peak_reserved(), validation, opened_.graphs()});
      }
      TESSERA_TRY(files.step_done());
      TESSERA_TRY(look_for_stop());
      lost = std::isfinite(step.loss) || step.loss_scale ? std::nullopt : std::optional(step.loss);
      ++skipped.all;
      if (step.skipped) ++(step.loss_scale ? skipped.scaled : skipped.plain);
    }
    if (prints()) say_skipped(skipped);
    if (!lost || stop_ != 0) return {};
    return Status(
        Code::invalid_argument,
        fmt::format("the loss of the last step is {}: its weights are worth nothing and are "
                    "not exported; lower the learning rate, or look at the data",
                    std::isnan(*lost) ? "nan" : "infinite"));
  }

  const TrainArguments& arguments_;
  Launch launch_;
  TrainRun run_;
  PeakFlops peak_;
  bool compared_ = true;  // the ranks' facts
  std::unique_ptr<storage::TraceWriter> trace_;
  bool begun_ = false;                // the trace
  std::unique_ptr<Trainer> trainer_;  // what the runtime still has to do may need it
  OpenedRuntime opened_;
  int stop_ = 0;        // the signal that ranks agreed on
  bool agrees_ = true;  // ranks can tell one another
};

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train", "Train a language model, on one process or on several");
  command->footer(train_examples);
  add_train_options(*command, *arguments);
  command->callback([arguments, &exit_code] {
    TrainProgram program(*arguments);
    const Status status = program.run();
    if (status.ok() && program.exit_code() != 0) exit_code = program.exit_code();
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
