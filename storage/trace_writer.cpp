// SPDX-License-Identifier: Apache-2.0
#include "tessera/storage/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/text/text_file.h"
#include "storage/call_log.h"
#include "storage/close_trace.h"
#include "storage/commit_schedule.h"
#include "storage/partial_file.h"
#include "storage/queue.h"
#include "storage/record_sql.h"
#include "storage/trace_rows.h"

namespace tessera::storage {
namespace {

constexpr std::size_t batch_size_max = 64 << 10;
/// The caller's side logs calls; the thread replays them into rows. What the caller has logged and
/// not yet handed over is taken by the thread when a commit is due, because the next call may be
/// long in coming.
class ThreadedWriter final : public TraceWriter {
 public:
  ThreadedWriter(std::string path, OwnedFile file, const TraceWriterOptions& options)
      : path_(std::move(path)),
        options_(options),
        file_(std::move(file)),
        batch_size_(
            std::min(batch_size_max, static_cast<std::size_t>(options.queue_max.value) / 4)),
        schedule_(static_cast<bool>(options_.clock)),
        queue_(static_cast<std::size_t>(options.queue_max.value)) {}
  ~ThreadedWriter() override {
    failed_.store(true, std::memory_order_relaxed);  // nobody wants what is still queued
    stop();
    rows_.reset();
    database_.reset();
    if (!finished_) file_.remove();
  }

  Status open() {
    TESSERA_ASSIGN(Database database, Database::open_recording(file_.name(), file_.descriptor()));
    database_ = std::make_unique<Database>(std::move(database));
    TESSERA_ASSIGN(rows_, TraceRows::create(*database_, options_.scratch));
    try {
      thread_ = std::thread([this] { write(); });
    } catch (const std::system_error&) {
      return {Code::out_of_memory, "Cannot start the thread that writes the trace."};
    }
    return {};
  }

  void begin(const TraceRun& run) override {
    log(&CallLog::begin, run);
    hand_over();
  }
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
  void memory_shortage(const TraceMemoryShortage& shortage) override {
    log(&CallLog::memory_shortage, shortage);
  }
  void defer(Bytes size, std::function<void(TraceSink&)> work) override {
    log(&CallLog::defer, size, std::move(work));
  }

  Status finish() override {
    if (finished_) return result_;
    finished_ = true;
    // From here on the rows are this thread's: the other one has taken all that was handed over.
    hand_over();
    stop();
    result_ = rows_->finish();
    std::string hash = rows_->content_hash();
    rows_.reset();
    const bool contradiction = result_.code() == Code::invalid_argument;
    if (!result_.ok() && !contradiction) result_ = keep_what_fits(result_, hash);
    if (result_.ok()) result_ = publish();
    if (result_.ok()) content_hash_ = std::move(hash);
    database_.reset();
    if (!left_) file_.remove();
    return result_.ok() ? cut_ : result_;
  }

  std::string content_hash() const override { return content_hash_; }

 private:
  template <class... T>
  void log(void (CallLog::*call)(T...), std::type_identity_t<T>... arguments) {
    TESSERA_ASSERT(!finished_, "nothing is recorded after finish");
    if (failed_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(log_mutex_);
    (log_.*call)(std::forward<T>(arguments)...);
    if (log_.size() >= batch_size_) queue_.push(log_.take(used_memory()));
  }

  void hand_over() {
    const std::lock_guard lock(log_mutex_);
    queue_.push(log_.take());
  }

  void write() {
    schedule_.begin(now());
    while (!queue_.over()) {
      if (auto batch = queue_.pop(patience())) play(std::move(*batch));
      if (failed_.load(std::memory_order_relaxed) || !schedule_.due(now())) continue;
      take_log();
      save();
    }
  }

  std::chrono::nanoseconds patience() const {
    if (failed_.load(std::memory_order_relaxed)) return std::chrono::hours(24);
    return std::chrono::nanoseconds(schedule_.patience(now()));
  }

  // After an error batches are still taken, so that the caller never waits for room in vain.
  void play(Calls batch) {
    if (failed_.load(std::memory_order_relaxed)) return;
    schedule_.recorded(batch.size());
    replay(batch, *rows_);
    look_for_failure();
    if (batch.bytes.capacity() > 2 * batch_size_) return;
    const std::lock_guard lock(used_mutex_);
    used_.push_back(std::move(batch.bytes));
  }

  /// Of a batch that was played: memory that is new again and again costs more than what is in it.
  std::vector<std::byte> used_memory() {
    const std::lock_guard lock(used_mutex_);
    if (used_.empty()) return {};
    std::vector<std::byte> memory = std::move(used_.back());
    used_.pop_back();
    return memory;
  }

  // Batches in the queue came before the calls in the log, and whoever adds to either holds the
  // lock. A caller that fills the queue as fast as it is emptied makes more calls: the commit does
  // not wait for those. One that has the lock adds a call to others that may be old by now, and
  // gives it back at once, unless it waits for room in the queue.
  void take_log() {
    for (std::size_t k = queue_.count(); k > 0; --k) {
      play(std::move(*queue_.pop()));
      if (schedule_.late(now())) return;
    }
    std::unique_lock lock(log_mutex_, std::try_to_lock);
    for (int attempts = 50; !lock.owns_lock(); lock.try_lock()) {
      if (--attempts == 0 || schedule_.late(now())) return;
      if (auto batch = queue_.pop(std::chrono::milliseconds(1))) play(std::move(*batch));
    }
    while (auto batch = queue_.pop({})) play(std::move(*batch));
    if (log_.size() > 0) play(log_.take());
  }

  Time now() const { return options_.clock ? options_.clock() : 0; }

  void save() {
    const Time begin = now();
    if (schedule_.take()) static_cast<void>(rows_->save());
    schedule_.committed(begin, now());
    look_for_failure();
  }

  void look_for_failure() {
    const Status& status = rows_->status();
    if (status.ok() || failed_.exchange(true, std::memory_order_relaxed)) return;
    if (!options_.warn) return;
    options_.warn(fmt::format("the trace ends here, the run goes on: {}", status.message()));
  }

  // What was committed before the disk was full is made a finished trace.
  Status keep_what_fits(const Status& why, std::string& hash) {
    static_cast<void>(database_->run("ROLLBACK"));  // if SQLite has not done so itself
    const auto reached =
        close_cut_trace(*database_, "the recording could not go on: " + why.message());
    if (!reached.ok()) {
      left_ = reached.status().code() != Code::corrupt;  // without `begin` there is nothing in it
      return why;
    }
    hash = reached->content_hash;
    cut_ = Status(Code::io_error,
                  fmt::format("{} What was recorded until then, {:.3f} s, is in \"{}\".",
                              why.message(), static_cast<double>(reached->time) * 1e-9, path_));
    return {};
  }

  // Equal calls make equal bytes, whenever they were committed: so the file is copied once, in the
  // order of its keys. Where there is no room for a copy the recording itself gets the name.
  Status publish() {
    if (!options_.scratch) {
      Status copied = copy();
      if (copied.ok()) return copied;
    }
    const Status single = database_->run("PRAGMA journal_mode = DELETE");
    database_.reset();
    const Status moved = single.ok() ? file_.move_to(path_) : single;
    left_ = true;  // under one name or the other
    return moved;
  }

  Status copy() {
    TESSERA_ASSIGN(OwnedFile file, OwnedFile::replace(file_.name() + ".final"));
    Status status = database_->copy_to(file.name());
    if (status.ok()) status = file.move_to(path_);
    if (!status.ok()) file.remove();
    return status;
  }

  void stop() {
    queue_.close();
    if (thread_.joinable()) thread_.join();
  }

  const std::string path_;
  const TraceWriterOptions options_;
  OwnedFile file_;  // destroyed last: its lock outlives SQLite's descriptors
  std::unique_ptr<Database> database_;
  std::unique_ptr<TraceRows> rows_;  // the thread's while it runs
  std::atomic<bool> failed_{false};

  const std::size_t batch_size_;
  std::mutex log_mutex_;
  CallLog log_;  // the caller's
  bool finished_ = false;
  bool left_ = false;  // the recording keeps its file
  Status result_, cut_;
  std::string content_hash_;

  CommitSchedule schedule_;  // the thread's

  Queue<Calls> queue_;
  std::mutex used_mutex_;
  std::vector<std::vector<std::byte>> used_;  // no more than were in the queue at once
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::string& path,
                                                         const TraceWriterOptions& options) {
  TESSERA_ASSERT(options.queue_max.value > 0, "a queue holds something");
  const std::string place = behind_links(path);
  TESSERA_ASSIGN(OwnedFile file, OwnedFile::beside(place));
  if (options.warn && file.name() != place + ".partial") {
    options.warn(
        fmt::format("\"{}.partial\" is what is left of an earlier recording and stays: "
                    "recover it with `tessera trace recover`, or remove it",
                    place));
  }
  auto writer = std::make_unique<ThreadedWriter>(place, std::move(file), options);
  TESSERA_TRY(writer->open());
  return std::unique_ptr<TraceWriter>(std::move(writer));
}

}  // namespace tessera::storage
