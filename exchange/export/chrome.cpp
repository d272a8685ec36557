// SPDX-License-Identifier: Apache-2.0
// Events as the PyTorch profiler writes them, so that tools for its files read these.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "exchange/export/exporter.h"
#include "exchange/export/output_file.h"

namespace tessera::exchange {
namespace {

constexpr int host_process = 1'000'000;              // and the rank
constexpr int first_stream = 7, first_thread = 100;  // ids of lanes, beside those of what is added

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Microseconds, exactly.
std::string microseconds(Time time) {
  const Time size = time < 0 ? -time : time;
  return fmt::format("{}{}.{:03}", time < 0 ? "-" : "", size / 1000, size % 1000);
}

struct CollectiveWords {
  OpKind kind;
  const char* kernel;  // by which tools tell communication from compute
  const char* name;
};
constexpr std::array collective_words = {
    CollectiveWords{OpKind::all_gather, "ncclDevKernel_AllGather", "_allgather_base"},
    CollectiveWords{OpKind::reduce_scatter, "ncclDevKernel_ReduceScatter", "_reduce_scatter_base"},
    CollectiveWords{OpKind::all_reduce, "ncclDevKernel_AllReduce", "allreduce"},
    CollectiveWords{OpKind::reduce, "ncclDevKernel_Reduce", "reduce"},
    CollectiveWords{OpKind::broadcast, "ncclDevKernel_Broadcast", "broadcast"},
    CollectiveWords{OpKind::all_to_all, "ncclDevKernel_SendRecv", "all_to_all"}};

const CollectiveWords& words_of(OpKind kind) {
  for (const CollectiveWords& words : collective_words) {
    if (words.kind == kind) return words;
  }
  return collective_words.front();
}

const char* dtype_word(DType dtype) {
  switch (dtype) {
    case DType::float32: return "Float";
    case DType::bfloat16: return "BFloat16";
    case DType::float16: return "Half";
    case DType::float64: return "Double";
    case DType::int32: return "Int";
    case DType::int64: return "Long";
    case DType::uint8: return "Byte";
  }
  return "Byte";
}

class Chrome final : public Exporter {
 public:
  Chrome(const analysis::Trace& trace, const std::string& out, Rank only, OutputFile file)
      : trace_(trace), out_(out), only_(only), file_(std::move(file)) {}

  Status begin() override {
    Json groups = Json::array();
    for (const auto& group : trace_.info().communicators) {
      groups.push_back({{"pg_name", fmt::format("{}", group.id)},
                        {"pg_desc", group.name},
                        {"pg_size", group.group_size}});
    }
    Json info{{"backend", "nccl"}, {"world_size", trace_.run().ranks}, {"pg_config", groups}};
    if (only_ >= 0) info["rank"] = only_;
    Json devices = Json::array();
    devices.push_back({{"id", 0},
                       {"name", trace_.run().cluster},
                       {"totalGlobalMem", trace_.run().memory_per_rank.value}});
    // HTA looks for the rank by a pattern with a space in it.
    file_.write(
        fmt::format("{{\n\"schemaVersion\": 1,\n\"deviceProperties\": {},\n"
                    "\"distributedInfo\": {},\n\"baseTimeNanoseconds\": 0,\n"
                    "\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n",
                    text_of(devices), text_of(info, 1)));
    return {};
  }

  Status rank(Rank rank) override {
    name_process(rank, fmt::format("rank {}", rank));
    name_process(host_process + rank, fmt::format("rank {}, host", rank));
    for (const storage::StreamRow& stream : trace_.info().streams) {
      const bool host = stream.role == StreamRole::host;
      event({{"ph", "M"},
             {"name", "thread_name"},
             {"pid", host ? host_process + rank : rank},
             {"tid", (host ? first_thread : first_stream) + stream.id},
             {"args", {{"name", stream.name}}}});
    }
    add_steps(rank);
    return {};
  }

  Status span(const ExportedSpan& span) override {
    const storage::OpRow& op = *span.op;
    const bool host = span.stream->role == StreamRole::host;
    const bool collective = is_collective(op.kind);
    std::string name = op.label.empty() ? std::string(name_of(op.kind)) : op.label;
    const char* category = host ? "cpu_op" : "kernel";
    Json arguments{{"External id", op.id}};
    if (!host) {
      arguments["device"] = 0;
      arguments["stream"] = first_stream + span.stream->id;
      arguments["correlation"] = op.id + 1;
      // HTA leaves out kernels that nobody launched: who did is not in the trace, nor when.
      complete("cuda_runtime", "cudaLaunchKernel", host_process + span.rank, 1, span.begin,
               span.begin, {{"correlation", op.id + 1}, {"External id", op.id}, {"made_up", true}});
    }
    if (collective && !host) {
      arguments["label"] = name;
      name = words_of(op.kind).kernel;
    } else if (op.kind == OpKind::copy && !host) {
      category = "gpu_memcpy";
      if (!name.starts_with("Mem")) name = "Memcpy " + name;
      if (op.bytes.value > 0) arguments["bytes"] = op.bytes.value;
    }
    if (collective) add_collective(op, arguments);
    for (const auto& [key, value] : {std::pair<const char*, std::string_view>{"unit", op.unit},
                                     {"module", op.module},
                                     {"phase", name_of(op.phase)},
                                     {"reason", name_of(op.reason)}}) {
      if (!value.empty()) arguments[key] = value;
    }
    complete(category, name, host ? host_process + span.rank : span.rank,
             host ? first_thread + span.stream->id : first_stream + span.stream->id, span.begin,
             span.end, arguments);
    return {};
  }

  bool wants_memory() const override { return true; }
  bool holds_host_memory() const override { return false; }
  Status memory(const storage::MemorySeries& series) override {
    for (std::size_t i = 0; i < series.time.size(); ++i) {
      if (!is_on_device(series.memory_class[i])) continue;  // "Device Type" 1 is a GPU
      line(fmt::format(
          R"({{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {}, )"
          R"("tid": 0, "ts": {}, "args": {{"Total Reserved": {}, "Total Allocated": {}, "Bytes": )"
          R"({}, "Device Id": 0, "Device Type": 1, "Addr": {}}}}})",
          host_process + series.rank, microseconds(series.time[i]), series.reserved[i].value,
          series.allocated[i].value, series.delta[i].value, series.buffer[i]));
    }
    return {};
  }

  Status finish(Exported& done) override {
    file_.write("\n]}\n");
    done.files.push_back(out_);
    return file_.finish();
  }

 private:
  void line(const std::string& text) {
    if (!first_) file_.write(",\n");
    first_ = false;
    file_.write(text);
  }
  void event(const Json& json) { line(text_of(json)); }

  void complete(const char* category, const std::string& name, int process, int thread, Time begin,
                Time end, const Json& arguments) {
    line(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, )"
        R"("args": {}}})",
        category, text_of(Json(name)), process, thread, microseconds(begin),
        microseconds(end - begin), text_of(arguments)));
  }

  void name_process(int process, const std::string& name) {
    event({{"ph", "M"},
           {"name", "process_name"},
           {"pid", process},
           {"tid", 0},
           {"args", {{"name", name}}}});
  }

  void add_steps(Rank rank) {
    const storage::RankSteps& steps = trace_.steps();
    for (std::int32_t step = 0; step < steps.steps; ++step) {
      const std::size_t i = static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
                            static_cast<std::size_t>(rank);
      if (steps.begin[i] == steps.end[i]) continue;
      complete("user_annotation", fmt::format("ProfilerStep#{}", step), host_process + rank, 0,
               steps.begin[i], steps.end[i], Json::object());
    }
  }

  void add_collective(const storage::OpRow& op, Json& arguments) const {
    const auto* const group = trace_.communicator(op);
    const std::int64_t size = group == nullptr ? 1 : std::max(group->group_size, 1);
    const std::int64_t full = op.bytes.value / size_of(op.dtype).value;
    const bool gathers = op.kind == OpKind::all_gather;
    const bool scatters = op.kind == OpKind::reduce_scatter;
    arguments["Collective name"] = words_of(op.kind).name;
    arguments["In msg nelems"] = gathers ? full / size : full;
    arguments["Out msg nelems"] = scatters ? full / size : full;
    arguments["Group size"] = size;
    arguments["dtype"] = dtype_word(op.dtype);
    arguments["Seq"] = op.id;
    if (group == nullptr) return;
    arguments["Process Group Name"] = fmt::format("{}", group->id);
    arguments["Process Group Description"] = group->name;
  }

  const analysis::Trace& trace_;
  const std::string out_;
  const Rank only_;  // of whom the file is; -1: of several
  OutputFile file_;
  bool first_ = true;
};

}  // namespace

Result<std::unique_ptr<Exporter>> chrome_exporter(const analysis::Trace& trace,
                                                  const std::string& out, Rank only) {
  TESSERA_ASSIGN(OutputFile file, OutputFile::create(out));
  return std::unique_ptr<Exporter>(std::make_unique<Chrome>(trace, out, only, std::move(file)));
}

}  // namespace tessera::exchange
