// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "exchange/formats/kineto_context.h"
#include "exchange/formats/kineto_lanes.h"
#include "exchange/formats/kineto_memory.h"
#include "exchange/import/file_rank.h"
#include "exchange/import/format_version.h"
#include "exchange/import/torch_collectives.h"

namespace tessera::exchange {
namespace {

/// Puts one profile into a rank, after all of its events were read.
class KinetoImport {
 public:
  KinetoImport(const KinetoFile& file, const KinetoContexts& contexts, ImportedRank& rank,
               ImportedRun& run)
      : file_(file),
        contexts_(contexts),
        rank_(rank),
        run_(run),
        lanes_(file, contexts, rank, run),
        in_context_(file.events.size()) {}

  void add_all() {
    ask();
    link_messages();
    lanes_.choose(in_context_);
    pair_gloo();
    for (std::size_t i = 0; i < file_.events.size(); ++i) add(i);
    add_steps();
    tell_unknown();
    tell_calls();
  }

 private:
  bool on_device(const KinetoEvent& event) const {
    return event.category == KinetoCategory::kernel || event.category == KinetoCategory::copy ||
           event.category == KinetoCategory::set;
  }

  /// What a device does belongs to where it was launched.
  void ask() {
    std::vector<KinetoContexts::Question> questions;
    std::vector<KinetoLaunch> launches = file_.launches;
    std::sort(launches.begin(), launches.end(), [](const auto& a, const auto& b) {
      return std::pair(a.correlation, a.time) < std::pair(b.correlation, b.time);
    });
    for (std::size_t i = 0; i < file_.events.size(); ++i) {
      const KinetoEvent& event = file_.events[i];
      if (!on_device(event)) {
        questions.push_back({event.begin, event.thread, static_cast<std::int64_t>(i)});
        continue;
      }
      const auto launch = std::lower_bound(
          launches.begin(), launches.end(), event.correlation,
          [](const KinetoLaunch& a, std::int64_t id) { return a.correlation < id; });
      if (launch == launches.end() || launch->correlation != event.correlation) {
        ++without_launch_;
        continue;
      }
      questions.push_back({launch->time, launch->thread, static_cast<std::int64_t>(i)});
    }
    contexts_.answer(std::move(questions), [&](std::int64_t id, const KinetoContext& context) {
      in_context_[static_cast<std::size_t>(id)] = context;
    });
  }

  /// Kernels of older profiles say of which host operation they are, and that one has the message.
  void link_messages() {
    std::map<std::int64_t, std::int32_t> by_external;
    for (const KinetoEvent& event : file_.events) {
      if (event.category != KinetoCategory::cpu_op || event.message < 0) continue;
      if (event.external >= 0) by_external.try_emplace(event.external, event.message);
    }
    for (std::size_t i = 0; i < file_.events.size(); ++i) {
      const KinetoEvent& event = file_.events[i];
      std::int32_t message = event.message;
      if (event.category == KinetoCategory::kernel && message < 0) {
        const auto found = by_external.find(event.external);
        if (found != by_external.end()) message = found->second;
      }
      messages_.push_back(message);
    }
  }

  /// gloo carries collectives out in threads of its own, in the order of the calls.
  void pair_gloo() {
    gloo_call_.assign(file_.events.size(), -1);
    std::vector<std::size_t> calls, carried;
    for (std::size_t i = 0; i < file_.events.size(); ++i) {
      const std::string& name = run_.text(file_.events[i].name);
      if (name.starts_with("c10d::") && collective_kind(name)) calls.push_back(i);
      if (name.starts_with("gloo:") && collective_kind(name)) carried.push_back(i);
    }
    const auto by_begin = [&](std::size_t a, std::size_t b) {
      return file_.events[a].begin < file_.events[b].begin;
    };
    std::stable_sort(calls.begin(), calls.end(), by_begin);
    std::stable_sort(carried.begin(), carried.end(), by_begin);
    std::map<OpKind, std::size_t> next;  // of calls, by what gloo does for them
    for (const std::size_t i : carried) {
      const OpKind kind = *collective_kind(run_.text(file_.events[i].name));
      std::size_t& at = next[kind];
      while (at < calls.size() && !carries(kind, calls[at])) ++at;
      if (at == calls.size() || file_.events[calls[at]].begin > file_.events[i].begin) continue;
      gloo_call_[i] = static_cast<std::int64_t>(calls[at++]);
    }
  }

  /// A reduce_scatter of gloo is an all_reduce.
  bool carries(OpKind gloo, std::size_t call) const {
    const OpKind kind = *collective_kind(run_.text(file_.events[call].name));
    return kind == gloo || (kind == OpKind::reduce_scatter && gloo == OpKind::all_reduce);
  }

  void add(std::size_t i) {
    const KinetoEvent& event = file_.events[i];
    const KinetoLanes::Place place = lanes_.place(i, in_context_[i]);
    if (place.lane < 0) return;
    ImportedSpan span;
    span.begin = event.begin;
    span.end = event.end;
    span.lane = place.lane;
    span.name = place.name;
    span.kind = place.kind;
    const KinetoContext& context = in_context_[i];
    span.step = static_cast<std::int32_t>(context.step);
    span.phase = context.phase;
    span.unit = context.unit;
    if (place.kind != OpKind::compute || context.reason == Reason::recompute ||
        context.reason == Reason::step || context.reason == Reason::copy_in ||
        context.reason == Reason::copy_out || context.reason == Reason::accumulate) {
      span.reason = context.reason;
    }
    if (place.collective) add_collective(i, span);
    rank_.spans.push_back(span);
  }

  void add_collective(std::size_t i, ImportedSpan& span) {
    const KinetoEvent& event = file_.events[i];
    const std::int64_t call = gloo_call_[i];
    std::int32_t message = messages_[i];
    std::string name = run_.text(event.name);
    if (call >= 0) {  // what was asked for, by whom
      const auto c = static_cast<std::size_t>(call);
      message = messages_[c];
      name = run_.text(file_.events[c].name);
      const KinetoContext& context = in_context_[c];
      span.step = static_cast<std::int32_t>(context.step);
      span.phase = context.phase;
      span.unit = context.unit;
      span.reason = reason_of(context);
    } else {
      span.reason = reason_of(in_context_[i]);
    }
    const KinetoMessage* const told =
        message < 0 ? nullptr : &file_.messages[static_cast<std::size_t>(message)];
    std::optional<OpKind> kind;
    if (told != nullptr) kind = collective_kind(told->collective);
    if (!kind) kind = collective_kind(name);
    span.kind = kind.value_or(OpKind::copy);
    if (!kind) return count_other(name);
    if (span.reason == Reason::none) span.reason = default_reason(span);
    ImportedCollective collective;
    collective.group = group_of(told);
    collective.algorithm = run_.text(nccl_algorithm(run_.text(event.name)));
    set_size(told, type_of(messages_[i], told), span.kind, collective);
    if (told != nullptr) collective.sequence = told->sequence;
    span.collective = static_cast<std::int32_t>(rank_.collectives.size());
    span.name = run_.text(
        span.unit == 0 ? std::string(tessera::name_of(span.kind))
                       : fmt::format("{} {}", tessera::name_of(span.kind), run_.text(span.unit)));
    rank_.collectives.push_back(collective);
  }

  static Reason reason_of(const KinetoContext& context) { return context.collective_reason; }

  /// Without annotations of a prefetch a gather is needed next; gradients are what backward
  /// reduces.
  static Reason default_reason(const ImportedSpan& span) {
    if (span.kind == OpKind::all_gather && span.unit != 0) return Reason::needed;
    const bool reduces = span.kind == OpKind::reduce_scatter || span.kind == OpKind::all_reduce ||
                         span.kind == OpKind::reduce;
    return reduces && span.phase == Phase::backward ? Reason::reduce_gradients : Reason::none;
  }

  /// Lists of tensors do not say theirs, but gloo's own events do.
  std::optional<TorchType> type_of(std::int32_t own, const KinetoMessage* told) const {
    auto type = told == nullptr ? std::nullopt : torch_type(told->dtype);
    if (!type && own >= 0) type = torch_type(file_.messages[static_cast<std::size_t>(own)].dtype);
    return type;
  }

  void set_size(const KinetoMessage* told, std::optional<TorchType> type, OpKind kind,
                ImportedCollective& collective) {
    if (told == nullptr) {
      ++without_size_;
      return;
    }
    std::int64_t numel = told->in < 0 ? told->out : told->in;
    if (kind == OpKind::all_gather) {
      const std::int32_t size = run_.groups()[static_cast<std::size_t>(collective.group)].size;
      numel = told->out >= 0 ? told->out : size > 0 ? told->in * size : -1;
    }
    if (!type || numel < 0 || numel > (std::int64_t{1} << 46)) {
      ++without_size_;
      return;
    }
    collective.dtype = type->dtype;
    collective.dtype_known = true;
    collective.bytes = Bytes{numel * type->size};
  }

  std::int32_t group_of(const KinetoMessage* told) {
    ImportedGroup group;
    if (told != nullptr && !told->group.empty()) {
      group.name = told->group;
      group.description = told->description;
      group.ranks = told->ranks;
      group.size = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(told->group_size, 0, std::int64_t{1} << 30));
      for (const KinetoGroup& known : file_.groups) {
        if (known.name != group.name) continue;
        if (group.description.empty()) group.description = known.description;
        if (group.ranks.empty()) group.ranks = known.ranks;
      }
    } else if (file_.groups.size() == 1) {
      const KinetoGroup& only = file_.groups.front();
      group = {only.name, only.description, only.ranks, only.size};
    } else {
      group.name = "unknown group";
      unknown_group_ = true;
    }
    return run_.group(group);
  }

  void count_other(const std::string& name) {
    if (is_nccl_kernel(name)) ++other_kernels_;
  }

  /// Where a device works on it, its steps are those of the device: the host runs ahead.
  void add_steps() {
    std::map<std::int64_t, ImportedStep> steps;
    for (const ImportedStep& step : contexts_.steps()) steps[step.number] = step;
    std::map<std::int64_t, std::pair<Time, Time>> device;
    for (std::size_t i = 0; i < file_.events.size(); ++i) {
      const KinetoEvent& event = file_.events[i];
      if (!on_device(event) || in_context_[i].step < 0) continue;
      const auto [found, added] = device.try_emplace(in_context_[i].step, event.begin, event.end);
      found->second.first = std::min(found->second.first, event.begin);
      found->second.second = std::max(found->second.second, event.end);
    }
    for (auto it = device.begin(); it != device.end(); ++it) {
      const auto next = std::next(it);
      ImportedStep& step = steps[it->first];
      step = {it->first, it->second.first, it->second.second};
      if (next != device.end()) step.end = std::max(step.begin, next->second.first);
    }
    for (const auto& [number, step] : steps) rank_.steps.push_back(step);
  }

  void tell_unknown() {
    run_.warn_count(
        "{} kernels have no launch in their file: their step, unit and pass are not known",
        without_launch_);
    run_.warn_count("the sizes of {} collectives are not known (record with record_shapes=True)",
                    without_size_);
    run_.warn_count(
        "{} kernels of NCCL are sends, receives or others that are no collective: shown as copies",
        other_kernels_);
    if (!unknown_group_) return;
    run_.warn("the process groups of some collectives are not known: they count as one group");
  }

  /// Without activities of the device there is nobody who carries them out.
  void tell_calls() {
    if (!rank_.collectives.empty()) return;
    std::int64_t calls = 0;
    for (const KinetoEvent& event : file_.events) {
      const std::string& name = run_.text(event.name);
      if (name.starts_with("c10d::") && collective_kind(name)) ++calls;
    }
    run_.warn_count(
        "{} collectives were called, and the profile does not say when they ran (record with "
        "activities of the device): they are left out",
        calls);
  }

  const KinetoFile& file_;
  const KinetoContexts& contexts_;
  ImportedRank& rank_;
  ImportedRun& run_;
  KinetoLanes lanes_;
  std::vector<KinetoContext> in_context_;  // by event
  std::vector<std::int32_t> messages_;     // by event: index into KinetoFile::messages
  std::vector<std::int64_t> gloo_call_;    // by event: the call that it carries out
  bool unknown_group_ = false;
  std::int64_t without_launch_ = 0, without_size_ = 0, other_kernels_ = 0;
};

void add_facts(const KinetoFile& file, const KinetoContexts& contexts, ImportedRun& run) {
  run.world = std::max(run.world, file.world);
  if (run.facts.scheme.empty()) run.facts.scheme = contexts.scheme();
  if (run.facts.cluster.empty()) run.facts.cluster = file.device.empty() ? file.host : file.device;
  if (run.facts.memory_per_rank.value == 0) run.facts.memory_per_rank = file.device_memory;
  for (const KinetoGroup& group : file.groups) {
    run.group({group.name, group.description, group.ranks, group.size});
  }
}

void tell_devices(const KinetoFile& file, const std::string& name, ImportedRun& run) {
  std::vector<bool> has_kernels(file.threads.size());
  for (const KinetoEvent& event : file.events) {
    if (event.category != KinetoCategory::kernel) continue;
    has_kernels[static_cast<std::size_t>(event.thread)] = true;
  }
  std::set<std::string_view> devices;
  for (std::size_t k = 0; k < has_kernels.size(); ++k) {
    if (has_kernels[k]) devices.insert(file.threads[k].process);
  }
  if (devices.size() < 2) return;
  run.warn(fmt::format("\"{}\" has kernels of {} devices: they are shown as those of one rank",
                       name, devices.size()));
}

}  // namespace

bool is_kineto(const SourceFile& source) {
  const std::string_view head = source.head();
  const auto first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  if (head[first] == '[') {
    return head.find("\"ph\"") != std::string_view::npos &&
           head.find("\"ts\"") != std::string_view::npos;
  }
  return head[first] == '{' && (head.find("\"traceEvents\"") != std::string_view::npos ||
                                head.find("\"baseTimeNanoseconds\"") != std::string_view::npos);
}

Status read_kineto(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  TESSERA_ASSIGN(KinetoFile file, read_kineto_file(source, limits.spans_max, run));
  if (file.cut_off) {
    run.warn(fmt::format("\"{}\" ends in the middle: what is whole was imported", source.name()));
  }
  if (!file.schema.empty()) {
    tell_version(file.schema, {"profiles of PyTorch (schemaVersion)", {1, 0}, {1, 0}}, run);
  }
  if (file.world > 0 && file.rank >= file.world) {
    run.warn(fmt::format("\"{}\" says that it is of rank {} among {}: there are more, then",
                         source.name(), file.rank, file.world));
  }
  if (file.named_ranks.size() > 1) {
    return source.error(Code::invalid_argument,
                        fmt::format("it has the processes of {} ranks: give each a file of its own "
                                    "(`tessera trace export -o 'rank{{rank}}.json'`)",
                                    file.named_ranks.size()));
  }
  if (run.world > 0 && file.world > 0 && run.world != file.world) {
    return source.error(Code::invalid_argument,
                        fmt::format("it is of a run of {} ranks, and the files before it of one of "
                                    "{}: all files of an import are of one run",
                                    file.world, run.world));
  }
  Rank number = file.rank;
  if (number < 0 && !file.named_ranks.empty()) number = *file.named_ranks.begin();
  if (number < 0) number = rank_of_file(source.name(), /*any_number=*/false);
  ImportedRank& rank = run.rank(number, source.path());
  if (!rank.spans.empty()) {
    return source.error(Code::invalid_argument,
                        fmt::format("it is of rank {}, as \"{}\" is: import one file of each rank "
                                    "(the profiler writes one for each cycle of its schedule)",
                                    number, rank.source));
  }
  rank.host = file.host;
  // Hosts have clocks of their own, and files without a base times since some boot.
  rank.shared_clock = file.based;
  rank.device_times = std::any_of(file.events.begin(), file.events.end(), [](const auto& event) {
    return event.category == KinetoCategory::kernel;
  });
  tell_devices(file, source.name(), run);
  const KinetoContexts contexts(file, run);
  add_facts(file, contexts, run);
  add_kineto_memory(file, contexts, rank, run);
  KinetoImport(file, contexts, rank, run).add_all();
  return {};
}

}  // namespace tessera::exchange
