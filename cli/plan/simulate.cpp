// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "cli/options/profile_options.h"
#include "cli/options/rank_list.h"
#include "cli/options/recording_options.h"
#include "cli/plan/again.h"
#include "cli/plan/scratch_folder.h"
#include "cli/report/progress.h"
#include "cli/report/report.h"
#include "cli/report/table.h"
#include "cli/stop_signal.h"
#include "cli/trace_warning.h"
#include "cli/train/host_program.h"
#include "cli/train/trace_name.h"
#include "tessera/storage/same_content.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::cli {
namespace {

struct SimulateArguments {
  std::string again;  // a trace that says all else
  EngineOptions engine;
  ProfileOptions profile;
  std::string cluster = "dgx-h100";
  std::int32_t nodes = 1;
  std::int32_t steps = 4;
  std::uint64_t seed = 0;
  double jitter = 0;
  std::vector<std::string> slow_ranks;
  std::vector<std::string> slow_links;
  std::optional<std::string> record_ranks;
  RecordingOptions recording;
  std::string output;
  std::optional<ScratchFolder> scratch;  // of an output that nobody wants to keep
  bool json = false;
  bool quiet = false;

  bool keeps_trace() const { return !scratch; }
  // The trace is read for the report alone. JSON quotes the hash of its content.
  bool only_reported() const { return scratch && again.empty() && !json; }
};

// Beyond these a unit was mistaken: 15 for 1.15 is possible, 1500 is not.
constexpr double slow_factor_min = 0.01;
constexpr double slow_factor_max = 1000;

// Where nobody says which, the first so many ranks are recorded, and those that the word "slowest"
// stands for.
constexpr Rank ranks_recorded = 64;
constexpr Rank slowest_recorded = 4;

constexpr const char* simulate_examples = R"(Examples:
  tessera simulate examples/models/llama-3-8b.json --cluster dgx-h100 --nodes 8
  tessera simulate examples/models/llama-3-8b.json --cluster dgx-h100 --nodes 8 -o run.tessera
  tessera simulate config.json --nodes 2048 --jitter 0.02 --slow-rank 77:1.2 -o big.tessera
  tessera simulate config.json --nodes 2 --batch 4 --checkpointing full -o fits.tessera
  tessera simulate --again run.tessera

Exit codes: 0 done, 2 bad input, 3 done, but the run does not fit the GPUs' memory, 130 or 143
stopped by a signal; the trace is finished.)";

template <class T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// "77:1.5", `what` is who is slow.
template <class Slow, class Who>
Result<std::vector<Slow>> slow_ones(const std::string& flag, const char* what, Who Slow::*who,
                                    const std::vector<std::string>& texts) {
  std::vector<Slow> slow;
  for (const std::string& text : texts) {
    const auto colon = text.find(':');
    Slow one;
    const bool good = colon != std::string::npos && parse(text.substr(0, colon), one.*who) &&
                      parse(text.substr(colon + 1), one.factor);
    if (!good) {
      return Status(Code::invalid_argument,
                    fmt::format("{} {}: give {}:FACTOR such as 77:1.5", flag, text, what));
    }
    if (!(one.factor >= slow_factor_min && one.factor <= slow_factor_max)) {
      return Status(Code::invalid_argument, fmt::format("{} {}: choose a factor of {} to {}", flag,
                                                        text, slow_factor_min, slow_factor_max));
    }
    if (one.factor == 1) {
      return Status(Code::invalid_argument,
                    fmt::format("{} {}: a factor of 1 changes nothing: leave it out", flag, text));
    }
    if (std::any_of(slow.begin(), slow.end(), [&](const Slow& s) { return s.*who == one.*who; })) {
      return Status(Code::invalid_argument,
                    fmt::format("{} {}: {} {} is given twice", flag, text, what, one.*who));
    }
    slow.push_back(one);
  }
  return slow;
}

Result<sim::SimulateOptions> simulate_options(const SimulateArguments& arguments,
                                              const sim::Cluster& cluster,
                                              const sim::StackProfile& stack,
                                              const Training& training) {
  sim::SimulateOptions options;
  options.program = train_program();
  options.cluster = cluster;
  options.stack = stack;
  TESSERA_ASSIGN(options.slow_ranks,
                 slow_ones("--slow-rank", "RANK", &sim::SlowRank::rank, arguments.slow_ranks));
  TESSERA_ASSIGN(options.slow_links,
                 slow_ones("--slow-link", "NODE", &sim::SlowLink::node, arguments.slow_links));
  options.seed = arguments.seed;
  const Rank ranks = options.cluster.ranks();
  TESSERA_ASSIGN(options.recorded_ranks,
                 parse_rank_list("--record-ranks",
                                 arguments.record_ranks.value_or(fmt::format(
                                     "0-{},slowest", std::min(ranks, ranks_recorded) - 1)),
                                 ranks, sim::slowest_ranks(options, slowest_recorded)));
  options.jitter = arguments.jitter;
  options.steps = arguments.steps;
  TESSERA_TRY(apply(arguments.recording, options.steps, options));
  options.scheme = training.scheme;
  options.training = training.training;
  options.version = version();
  return options;
}

// A run that only has to be carried out.
struct Prepared {
  Model model;
  sim::SimulateOptions options;
  std::vector<std::string> warnings;
};

Result<Prepared> prepare(const SimulateArguments& arguments) {
  TESSERA_ASSIGN(const auto cluster, sim::load_cluster(arguments.cluster, arguments.nodes));
  TESSERA_ASSIGN(const sim::StackProfile stack, resolve_profile(arguments.profile));
  EngineOptions engine = arguments.engine;
  if (stack.program == sim::StackProfile::Program::train) {
    engine.scheme.param_dtype = "float32";  // as tessera train has it where nothing is said
  }
  TESSERA_ASSIGN(Training training, resolve(engine, cluster.ranks()));
  TESSERA_TRY(check_software(arguments.profile, stack, training.scheme, training.lora));
  TESSERA_ASSIGN(sim::SimulateOptions options,
                 simulate_options(arguments, cluster, stack, training));
  TESSERA_ASSIGN(const std::string model, file_text(arguments.engine.model_path));
  TESSERA_ASSIGN(const std::string cluster_json, sim::cluster_text(arguments.cluster));
  options.sources = sources_json(model, cluster_json, training.lora);
  for (std::string& idle : without_effect(arguments.profile, training.model, cluster)) {
    training.warnings.push_back(std::move(idle));
  }
  return Prepared{std::move(training.model), std::move(options), std::move(training.warnings)};
}

Result<Prepared> prepare_again(const SimulateArguments& arguments) {
  TESSERA_ASSIGN(Again again, read_again(arguments.again));
  return Prepared{std::move(again.model), std::move(again.options), {}};
}

void print_summary(const SimulateArguments& arguments, const Prepared& run,
                   const sim::SimulateSummary& summary) {
  Numel padding{};
  for (const UnitInfo& unit : summary.units) padding += unit.padding;
  if (summary.fits && summary.cache_returns > 0) {
    fmt::print("memory: fits only because cached blocks are given back {} time{}\n",
               summary.cache_returns, summary.cache_returns == 1 ? "" : "s");
  }
  fmt::print("{}: {} parameters in {} units, {} elements of padding\n", run.model.name,
             with_separators(summary.parameters.value), summary.units.size(),
             with_separators(padding.value));
  if (arguments.keeps_trace()) fmt::print("trace: {}\n", arguments.output);
  fmt::print("\n");
}

Status report_on(const SimulateArguments& arguments, bool spans) {
  using analysis::Trace;
  // It was hashed when it was written, a moment ago.
  TESSERA_ASSIGN(const Trace trace, Trace::open(arguments.output, Trace::Check::later,
                                                spans ? Trace::Ops::all : Trace::Ops::collectives));
  TESSERA_ASSIGN(const RunReport data, analysis::report_of(trace));
  arguments.json ? print_report_json(data) : print_report(data);
  return {};
}

// What a repetition is for: the same trace, or a sentence. Another version may have written the
// same in other bytes.
Status compare(const SimulateArguments& arguments) {
  TESSERA_ASSIGN(const bool same, same_bytes(arguments.again, arguments.output));
  if (!same) {
    TESSERA_ASSIGN(const auto before, storage::TraceReader::open(arguments.again));
    TESSERA_ASSIGN(const auto after, storage::TraceReader::open(arguments.output));
    TESSERA_ASSIGN(const bool says_the_same, storage::same_content(before, after));
    if (says_the_same && !arguments.quiet && !arguments.json) {
      fmt::print("{} says what {} says, which version {} wrote in another form\n", arguments.output,
                 arguments.again, before.info().run.version);
    }
    if (says_the_same) return {};
    return Status(
        Code::divergent,
        fmt::format("{} differs from {}, which was written by version {}, this is {}",
                    arguments.output, arguments.again, before.info().run.version, version()));
  }
  if (!arguments.quiet && !arguments.json) {
    fmt::print("{} is {}, byte for byte\n", arguments.output, arguments.again);
  }
  return {};
}

// What would have made it fit, in the trace, too. Empty: so many ranks would take too long to try.
std::string advise(const Prepared& run, TraceSink& trace) {
  constexpr Rank most_ranks = 1 << 16;
  if (run.options.cluster.ranks() > most_ranks) return {};
  const auto found = sim::what_would_fit(run.model, run.options);
  const std::string text =
      found.empty()
          ? "neither a batch of 1 with full checkpointing nor 16 times the nodes makes it fit"
          : fmt::format("it would fit with {}", fmt::join(found, ", or with "));
  trace.diagnostic({.severity = DiagnosticSeverity::warning, .code = "would_fit", .message = text});
  return text;
}

// Millions of small objects come and go with the operations, and columns of megabytes beside them:
// to ask the system for the same memory again and again takes longer than to keep it.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MXFAST, 0);  // or whoever frees a large block merges all small ones first
#endif
}

Result<std::unique_ptr<storage::TraceWriter>> writer_of(const SimulateArguments& arguments) {
  const bool scratch = arguments.only_reported();
  return storage::TraceWriter::create(
      arguments.output,
      {.clock = scratch ? nullptr : steady_time, .warn = warn_of_recording, .scratch = scratch});
}

Result<int> simulate(SimulateArguments arguments) {
  keep_freed_memory();
  const bool again = !arguments.again.empty();
  TESSERA_ASSIGN(Prepared run, again ? prepare_again(arguments) : prepare(arguments));
  if (arguments.output.empty()) {
    TESSERA_ASSIGN(arguments.scratch, ScratchFolder::create());
    arguments.output = arguments.scratch->path() + "/run.tessera";
  }
  TESSERA_TRY(check_trace_name("--output", arguments.output));
  TESSERA_ASSIGN(auto writer, writer_of(arguments));
  run.options.sink = writer.get();
  run.options.only_collectives = arguments.only_reported() && run.options.recorded_ranks.empty();
  sim::SimulateSummary summary;
  {
    Progress progress("simulating", "steps", arguments.quiet);
    run.options.progress = [&](std::int32_t step, std::int32_t steps) {
      progress.update(step, steps);
    };
    stop_on_signals();
    run.options.stopped = [] { return stop_signal() != 0; };
    TESSERA_ASSIGN(summary, sim::simulate(run.model, run.options));
  }
  const bool stopped = summary.steps < run.options.steps;
  const std::string why =
      stopped ? stop_sentence(stop_signal(), summary.steps, run.options.steps) : "";
  if (stopped) {
    writer->diagnostic({.severity = DiagnosticSeverity::warning,
                        .code = name_of(Code::cancelled),
                        .message = why});
  }
  const std::string advice = summary.fits || stopped ? "" : advise(run, *writer);
  TESSERA_TRY(writer->finish());
  if (stopped) {
    say(arguments.keeps_trace()
            ? fmt::format("{}: {} has what was simulated until then", why, arguments.output)
            : why);
    return exit_stopped(stop_signal());
  }
  if (!arguments.quiet) {
    print_warnings(run.warnings);
    print_warnings(summary.warnings);
    if (!arguments.json) print_summary(arguments, run, summary);
  }
  // With both, --quiet is about stderr: who asks for JSON wants it.
  if (arguments.json || !arguments.quiet) {
    TESSERA_TRY(report_on(arguments, !run.options.recorded_ranks.empty()));
  }
  if (again) TESSERA_TRY(compare(arguments));
  if (summary.fits) return exit_ok;
  say(summary.out_of_memory);
  if (!advice.empty()) say(advice);
  return exit_does_not_fit;
}

// The trace says everything else, so nothing else may be given with --again.
Status check_again(const CLI::App& command, SimulateArguments& arguments) {
  if (arguments.again.empty()) {
    if (arguments.engine.model_path.empty()) return refused("MODEL is required");
    return {};
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_positional() ? "MODEL" : "--" + option->get_single_name();
    const bool beside = name == "--again" || name == "--output" || name == "--json" ||
                        name == "--quiet" || option->count() == 0;
    if (beside) continue;
    return refused(fmt::format("{}: --again takes everything from the trace: leave it out", name));
  }
  if (arguments.output == arguments.again) {
    return refused("--again compares with the trace: choose another --output");
  }
  if (!arguments.output.empty()) return {};
  const std::string ending = ".tessera";
  const std::string& trace = arguments.again;
  const bool ends = trace.ends_with(ending);
  arguments.output = trace.substr(0, trace.size() - (ends ? ending.size() : 0)) + "-again" + ending;
  return {};
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand("simulate", "Simulate sharded training on a cluster");
  command->footer(simulate_examples);
  add_engine_options(*command, arguments->engine);
  add_passes_option(*command, arguments->engine);
  add_profile_options(*command, arguments->profile);
  const char* cluster = "Cluster";
  command->add_option("--cluster", arguments->cluster, "A preset or a JSON file")->group(cluster);
  command->add_option("--nodes", arguments->nodes, "Number of nodes")
      ->check(within(1, 1'000'000))
      ->group(cluster);
  command->add_option("--jitter", arguments->jitter, "Kernels vary by this share of their time")
      ->check(within(0.0, 0.99))
      ->group(cluster);
  command
      ->add_option("--slow-rank", arguments->slow_ranks, "RANK:FACTOR, may be given several times")
      ->allow_extra_args(false)  // what follows a value is MODEL
      ->default_str("")
      ->group(cluster);
  command
      ->add_option("--slow-link", arguments->slow_links,
                   "NODE:FACTOR: collectives with ranks of that node take so much longer")
      ->allow_extra_args(false)
      ->default_str("")
      ->group(cluster);
  const char* run = "Run";
  command->get_option("MODEL")->required(false);
  command
      ->add_option("--again", arguments->again,
                   "Instead of all else: a trace, which is simulated once more and compared")
      ->default_str("")
      ->group(run);
  command->add_option("--steps", arguments->steps, "Training steps")
      ->check(within(1, 1'000'000))
      ->group(run);
  command->add_option("--seed", arguments->seed, "Seed of everything random")
      ->check(any_uint64())
      ->group(run);
  const char* output = "Output";
  command
      ->add_option("-o,--output", arguments->output,
                   "Trace file to write; without it there is only the report")
      ->default_str("")
      ->group(output);
  command
      ->add_option("--record-ranks", arguments->record_ranks,
                   "Ranks with spans and memory samples: 0-63, 0,8,slowest, all, none")
      ->default_str(fmt::format("0-{},slowest", ranks_recorded - 1))
      ->group(output);
  add_recording_options(*command, arguments->recording);
  command->add_flag("--json", arguments->json, "Print the report as JSON")->group(output);
  command
      ->add_flag("-q,--quiet", arguments->quiet,
                 "Print nothing but errors (and what --json asks for)")
      ->group(output);
  command->callback([arguments, command, &exit_code] {
    Status given = check_again(*command, *arguments);
    if (given.ok()) {
      given = check_acting(
          *command, {{"--no-record-memory", !arguments->output.empty(), "without --output"}});
    }
    const Result<int> result = given.ok() ? simulate(std::move(*arguments)) : Result<int>(given);
    exit_code = result.ok() ? *result : complain(result.status());
  });
}

}  // namespace tessera::cli
