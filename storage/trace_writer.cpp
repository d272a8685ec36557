// SPDX-License-Identifier: Apache-2.0
#include "tessera/storage/trace_writer.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "storage/call_log.h"
#include "storage/partial_file.h"
#include "storage/queue.h"
#include "storage/record_sql.h"
#include "storage/trace_rows.h"

namespace tessera::storage {
namespace {

constexpr std::size_t batch_size_max = 64 << 10;

/// The caller's side logs calls; the thread replays them into rows.
class ThreadedWriter final : public TraceWriter {
 public:
  ThreadedWriter(PartialFile file, std::size_t queue_max)
      : file_(std::move(file)),
        batch_size_(std::min(batch_size_max, queue_max / 4)),
        queue_(queue_max) {}
  ~ThreadedWriter() override {
    failed_.store(true, std::memory_order_relaxed);  // nobody wants what is still queued
    stop();
  }

  Status open() {
    TESSERA_ASSIGN(Database database, Database::open_disposable(file_.partial_path()));
    database_ = std::make_unique<Database>(std::move(database));
    TESSERA_ASSIGN(rows_, TraceRows::create(*database_));
    try {
      thread_ = std::thread([this] { write(); });
    } catch (const std::system_error&) {
      return {Code::out_of_memory, "Cannot start the thread that writes the trace."};
    }
    return {};
  }

  void begin(const TraceRun& run) override { log(&CallLog::begin, run); }
  void stream(const TraceStream& stream) override { log(&CallLog::stream, stream); }
  void communicator(const TraceCommunicator& c) override { log(&CallLog::communicator, c); }
  void unit(const TraceUnit& unit) override { log(&CallLog::unit, unit); }
  void op(const TraceOp& op) override { log(&CallLog::op, op); }
  void spans(const SpanBatch& s) override {
    const std::size_t n = s.ranks.size();
    TESSERA_ASSERT(s.begin.size() == n && s.ready.size() == n && s.end.size() == n,
                   "the columns of a span batch have one length");
    log(&CallLog::spans, s);
  }
  void kernel(const TraceKernel& kernel) override { log(&CallLog::kernel, kernel); }
  void buffer(const TraceBuffer& buffer) override { log(&CallLog::buffer, buffer); }
  void memory(std::span<const MemorySample> samples) override { log(&CallLog::memory, samples); }
  void peak_memory(const PeakMemory& peak) override { log(&CallLog::peak_memory, peak); }
  void rank_steps(const RankStepBatch& s) override {
    for_each_step_column<RankStepBatch, RankStepBatch>([&](auto column, auto) {
      TESSERA_ASSERT((s.*column).size() == s.begin.size(), "the columns of a step have one length");
    });
    log(&CallLog::rank_steps, s);
  }
  void diagnostic(const TraceDiagnostic& d) override { log(&CallLog::diagnostic, d); }
  void defer(Bytes size, std::function<void(TraceSink&)> work) override {
    log(&CallLog::defer, size, std::move(work));
  }

  Status finish() override {
    if (finished_) return result_;
    finished_ = true;
    queue_.push(log_.take());
    stop();
    result_ = rows_->finish();
    if (result_.ok()) content_hash_ = rows_->content_hash();
    rows_.reset();
    database_.reset();
    if (result_.ok()) result_ = file_.publish();
    return result_;
  }

  std::string content_hash() const override { return content_hash_; }

 private:
  template <class... T>
  void log(void (CallLog::*call)(T...), std::type_identity_t<T>... arguments) {
    TESSERA_ASSERT(!finished_, "nothing is recorded after finish");
    if (failed_.load(std::memory_order_relaxed)) return;
    (log_.*call)(std::forward<T>(arguments)...);
    if (log_.size() >= batch_size_) queue_.push(log_.take());
  }

  void write() {
    while (auto batch = queue_.pop()) {
      // After an error batches are still taken, so that the caller never waits for room in vain.
      if (!failed_.load(std::memory_order_relaxed)) replay(std::move(*batch), *rows_);
      if (!rows_->status().ok()) failed_.store(true, std::memory_order_relaxed);
    }
  }

  void stop() {
    queue_.close();
    if (thread_.joinable()) thread_.join();
  }

  PartialFile file_;  // destroyed last: its lock outlives SQLite's descriptors
  std::unique_ptr<Database> database_;
  std::unique_ptr<TraceRows> rows_;  // the thread's while it runs
  std::atomic<bool> failed_{false};

  const std::size_t batch_size_;
  CallLog log_;  // the caller's
  bool finished_ = false;
  Status result_;
  std::string content_hash_;

  Queue<Calls> queue_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::string& path,
                                                         const TraceWriterOptions& options) {
  TESSERA_ASSERT(options.queue_max.value > 0, "a queue holds something");
  TESSERA_ASSIGN(PartialFile file, PartialFile::create(path));
  auto writer = std::make_unique<ThreadedWriter>(std::move(file),
                                                 static_cast<std::size_t>(options.queue_max.value));
  TESSERA_TRY(writer->open());
  return std::unique_ptr<TraceWriter>(std::move(writer));
}

}  // namespace tessera::storage
