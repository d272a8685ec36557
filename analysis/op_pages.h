// SPDX-License-Identifier: Apache-2.0
// The operations of a long run, read a page at a time.
//
// The idea: a run of thousands of steps has millions of operations of 200 bytes, and a picture
// needs those of a few steps. So rows come by ranges of ids, when somebody asks for one of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "analysis/id_places.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::analysis {

class OpPages {
 public:
  /// Of the ids [first, end).
  OpPages(std::int32_t first, std::int32_t end) : first_(first), end_(end) {}

  /// nullptr: there is no such op, or it cannot be read. It stays until `forget`. Threads may ask.
  const storage::OpRow* find(const storage::TraceReader& reader, std::int32_t id);
  /// Those of the first two and of the last two steps: what others are like.
  const std::vector<storage::OpRow>& typical(const storage::TraceReader& reader);
  /// All of them; they stay.
  const std::vector<storage::OpRow>& all(const storage::TraceReader& reader);
  /// Frees pages that were asked for longest ago, where there are many.
  void forget();
  /// Why some could not be read; the first time.
  Status problem() const;

 private:
  struct Rows {
    std::vector<storage::OpRow> ops;
    IdPlaces places;
  };
  struct Page : Rows {
    std::int64_t used = 0;
  };
  Page& page(const storage::TraceReader& reader, std::int32_t number);
  const storage::OpRow* find_in(const Rows& rows, std::int32_t id) const;
  void read(const storage::TraceReader& reader, std::int32_t from, std::int32_t to, Rows& rows);
  void read_typical(const storage::TraceReader& reader);

  const std::int32_t first_, end_;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::int32_t, Page> pages_;
  Page* last_ = nullptr;  // that somebody asked for
  std::int32_t last_number_ = -1;
  std::int64_t clock_ = 0;
  std::vector<storage::OpRow> typical_;
  Rows all_;
  bool has_all_ = false;
  Status problem_;
};

}  // namespace tessera::analysis
