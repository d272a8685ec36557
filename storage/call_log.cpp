// SPDX-License-Identifier: Apache-2.0
#include "storage/call_log.h"

#include <cstring>
#include <tuple>
#include <type_traits>

#include "storage/records.h"

namespace tessera::storage {
namespace {

struct MemoryCall {
  std::span<const MemorySample> samples;
};
struct WorkCall {
  std::size_t place = 0;  // among the works
};

/// The fields of each call by the lists, for writing and reading alike.
template <class A, class Record>
void fields(A& a, Record& v) {
  std::apply([&](const auto&... column) { (a(v.*(column.member)), ...); }, List<Record>::columns);
  std::apply([&](const auto... member) { (a(v.*member), ...); }, List<Record>::unlisted);
}
template <class A>
void fields(A& a, MemoryCall& v) {
  a(v.samples);
}
template <class A>
void fields(A& a, WorkCall& v) {
  a(v.place);
}

enum class Call : std::uint8_t {
  begin,
  stream,
  communicator,
  unit,
  op,
  spans,
  kernel,
  buffer,
  memory,
  peak_memory,
  rank_steps,
  diagnostic,
  memory_shortage,
  work
};

template <class T>
constexpr Call call_of() {
  if constexpr (std::is_same_v<T, TraceRun>) return Call::begin;
  if constexpr (std::is_same_v<T, TraceStream>) return Call::stream;
  if constexpr (std::is_same_v<T, TraceCommunicator>) return Call::communicator;
  if constexpr (std::is_same_v<T, TraceUnit>) return Call::unit;
  if constexpr (std::is_same_v<T, TraceOp>) return Call::op;
  if constexpr (std::is_same_v<T, SpanBatch>) return Call::spans;
  if constexpr (std::is_same_v<T, TraceKernel>) return Call::kernel;
  if constexpr (std::is_same_v<T, TraceBuffer>) return Call::buffer;
  if constexpr (std::is_same_v<T, MemoryCall>) return Call::memory;
  if constexpr (std::is_same_v<T, PeakMemory>) return Call::peak_memory;
  if constexpr (std::is_same_v<T, RankStepBatch>) return Call::rank_steps;
  if constexpr (std::is_same_v<T, TraceDiagnostic>) return Call::diagnostic;
  if constexpr (std::is_same_v<T, TraceMemoryShortage>) return Call::memory_shortage;
  if constexpr (std::is_same_v<T, WorkCall>) return Call::work;
}

/// Columns are aligned within the bytes, so that reading them needs no copy.
constexpr std::size_t aligned(std::size_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <class T>
  void operator()(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(&value, sizeof(T));
  }
  void operator()(const std::string& text) { column(text.data(), text.size()); }
  void operator()(const std::string_view& text) { column(text.data(), text.size()); }
  template <class T>
  void operator()(const std::vector<T>& values) {
    column(values.data(), values.size());
  }
  template <class T>
  void operator()(const std::span<const T>& values) {
    column(values.data(), values.size());
  }

 private:
  template <class T>
  void column(const T* data, std::size_t size) {
    (*this)(size);
    bytes_.resize(aligned(bytes_.size(), alignof(T)));
    put(data, size * sizeof(T));
  }
  void put(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<std::byte>& bytes_;
};

/// Views point into the bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool at_end() const { return offset_ == bytes_.size(); }
  template <class T>
  void operator()(T& value) {
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
  }
  void operator()(std::string& text) { text = column<char, std::string_view>(); }
  void operator()(std::string_view& text) { text = column<char, std::string_view>(); }
  template <class T>
  void operator()(std::vector<T>& values) {
    const auto column_values = column<T, std::span<const T>>();
    values.assign(column_values.begin(), column_values.end());
  }
  template <class T>
  void operator()(std::span<const T>& values) {
    values = column<T, std::span<const T>>();
  }

 private:
  template <class T, class View>
  View column() {
    std::size_t size = 0;
    (*this)(size);
    offset_ = aligned(offset_, alignof(T));
    return View(reinterpret_cast<const T*>(take(size * sizeof(T))), size);
  }
  const std::byte* take(std::size_t size) {
    TESSERA_ASSERT(size <= bytes_.size() - offset_, "a call log is read as it was written");
    const std::byte* data = bytes_.data() + offset_;
    offset_ += size;
    return data;
  }

  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

template <class T>
T read(Reader& reader) {
  T arguments;
  fields(reader, arguments);
  return arguments;
}

void replay_one(Reader& reader, Calls& calls, TraceSink& sink) {
  Call call{};
  reader(call);
  switch (call) {
    case Call::begin: return sink.begin(read<TraceRun>(reader));
    case Call::stream: return sink.stream(read<TraceStream>(reader));
    case Call::communicator: return sink.communicator(read<TraceCommunicator>(reader));
    case Call::unit: return sink.unit(read<TraceUnit>(reader));
    case Call::op: return sink.op(read<TraceOp>(reader));
    case Call::spans: return sink.spans(read<SpanBatch>(reader));
    case Call::kernel: return sink.kernel(read<TraceKernel>(reader));
    case Call::buffer: return sink.buffer(read<TraceBuffer>(reader));
    case Call::memory: return sink.memory(read<MemoryCall>(reader).samples);
    case Call::peak_memory: return sink.peak_memory(read<PeakMemory>(reader));
    case Call::rank_steps: return sink.rank_steps(read<RankStepBatch>(reader));
    case Call::diagnostic: return sink.diagnostic(read<TraceDiagnostic>(reader));
    case Call::memory_shortage: return sink.memory_shortage(read<TraceMemoryShortage>(reader));
    case Call::work: return std::exchange(calls.works[read<WorkCall>(reader).place], {})(sink);
  }
}

}  // namespace

template <class T>
void CallLog::append(T arguments) {
  Writer writer(calls_.bytes);
  writer(call_of<T>());
  fields(writer, arguments);
}

void CallLog::begin(const TraceRun& run) { append(run); }
void CallLog::stream(const TraceStream& stream) { append(stream); }
void CallLog::communicator(const TraceCommunicator& communicator) { append(communicator); }
void CallLog::unit(const TraceUnit& unit) { append(unit); }
void CallLog::op(const TraceOp& op) { append(op); }
void CallLog::spans(const SpanBatch& spans) { append(spans); }
void CallLog::kernel(const TraceKernel& kernel) { append(kernel); }
void CallLog::buffer(const TraceBuffer& buffer) { append(buffer); }
void CallLog::memory(std::span<const MemorySample> samples) { append(MemoryCall{samples}); }
void CallLog::peak_memory(const PeakMemory& peak) { append(peak); }
void CallLog::rank_steps(const RankStepBatch& steps) {
  // Of very many ranks: what grows by itself would have them twice for a moment.
  constexpr std::size_t many = 64 << 10, rest = 1024;
  const std::size_t columns = steps.begin.size() * 9 * sizeof(Time);
  if (columns > many) calls_.bytes.reserve(calls_.bytes.size() + columns + rest);
  append(steps);
}
void CallLog::diagnostic(const TraceDiagnostic& diagnostic) { append(diagnostic); }
void CallLog::memory_shortage(const TraceMemoryShortage& shortage) { append(shortage); }

void CallLog::defer(Bytes size, std::function<void(TraceSink&)> work) {
  append(WorkCall{calls_.works.size()});
  calls_.works.push_back(std::move(work));
  calls_.works_size += static_cast<std::size_t>(size.value);
}

void replay(Calls& calls, TraceSink& sink) {
  Reader reader(calls.bytes);
  while (!reader.at_end()) replay_one(reader, calls, sink);
}

}  // namespace tessera::storage
