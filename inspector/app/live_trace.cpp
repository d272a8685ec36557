// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/live_trace.h"

#include <filesystem>
#include <system_error>

#include "tessera/inspector/inspector.h"

namespace tessera::inspector {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view partial_ending = ".partial";
constexpr std::chrono::milliseconds between_looks{500};
constexpr int rests = 4;  // as long as opening took, before the next look

bool exists(const std::string& path) {
  std::error_code none;
  return fs::exists(path, none);
}

Result<std::unique_ptr<TraceModel>> open_loaded(const std::string& path,
                                                const std::vector<Rank>& ranks) {
  TESSERA_ASSIGN(auto model, TraceModel::open(path));
  for (const Rank rank : ranks) {
    model->rank(rank);
    model->memory(rank);
  }
  return model;
}

}  // namespace

std::string trace_file(const std::string& path) {
  const std::string partial = path + std::string(partial_ending);
  return !exists(path) && exists(partial) ? partial : path;
}

LiveTrace::LiveTrace(const std::string& path, bool unfinished)
    : partial_(path), finished_(path), goes_on_(unfinished && path.ends_with(partial_ending)) {
  if (!goes_on_) return;
  finished_.resize(finished_.size() - partial_ending.size());
  seen_ = stamp();
  next_ = Clock::now() + between_looks;
}

LiveTrace::Stamp LiveTrace::stamp() const {
  Stamp stamp{};
  std::size_t k = 0;
  for (const std::string& path : {partial_, partial_ + "-wal"}) {
    std::error_code missing;
    const auto size = fs::file_size(path, missing);
    stamp[k++] = missing ? -1 : static_cast<std::int64_t>(size);
    const auto time = fs::last_write_time(path, missing);
    stamp[k++] = missing ? 0 : static_cast<std::int64_t>(time.time_since_epoch().count());
  }
  return stamp;
}

// A finished recording has its own name; one that gave up has none.
std::string LiveTrace::file() const {
  if (exists(partial_)) return partial_;
  return exists(finished_) ? finished_ : "";
}

std::unique_ptr<TraceModel> LiveTrace::accept(Opened opened) {
  const Clock::time_point now = Clock::now();
  next_ = now + std::max<Clock::duration>(between_looks, rests * (now - began_));
  if (!opened.ok()) return nullptr;  // caught between two states: the next look will tell
  goes_on_ = (*opened)->info().unfinished;
  return std::move(opened).value();
}

std::unique_ptr<TraceModel> LiveTrace::take(const TraceModel& shown, bool wait) {
  if (!goes_on_) return nullptr;
  if (opening_.valid()) {
    if (!wait && opening_.wait_for(std::chrono::seconds{0}) != std::future_status::ready) {
      return nullptr;
    }
    return accept(opening_.get());
  }
  if (!wait && Clock::now() < next_) return nullptr;
  next_ = Clock::now() + between_looks;
  const Stamp now = stamp();
  if (now == seen_) return nullptr;
  const std::string path = file();
  if (path.empty()) goes_on_ = false;
  if (path.empty()) return nullptr;
  seen_ = now;
  began_ = Clock::now();
  const std::vector<Rank> ranks = shown.loaded_ranks();
  if (wait) return accept(open_loaded(path, ranks));
  opening_ = std::async(std::launch::async, open_loaded, path, ranks);
  return nullptr;
}

}  // namespace tessera::inspector
