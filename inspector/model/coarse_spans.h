// SPDX-License-Identifier: Apache-2.0
// All spans of a rank of a long run as sums over a few dozen each, found out beside the frames.
//
// The idea: where thousands of steps are in view, single spans are less than a pixel. So a thread
// goes through the chunks of the ranks in view once, one chunk in memory at a time, and keeps what
// a picture needs: when, how busy, how much of it in wait, and what mostly.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inspector/model/op_classes.h"
#include "inspector/model/span_pyramid.h"

namespace tessera::inspector {

struct CoarseRank {
  struct CoarseLane {
    std::int32_t stream;
    SpanPyramid pyramid;
  };
  std::vector<CoarseLane> lanes;  // ascending stream id
  Status problem;                 // why there are none, if they cannot be read
  std::size_t nodes = 0;
  std::int64_t used = 0;

  const SpanPyramid* lane(std::int32_t stream) const;
};

class CoarseSpans {
 public:
  explicit CoarseSpans(std::string path) : path_(std::move(path)) {}
  ~CoarseSpans();

  /// Whether answers wait, as in pictures that a script asks for.
  void set_patient(bool patient) { patient_ = patient; }
  /// nullptr: not yet, a thread is at it. It stays until the next `begin_frame`.
  const CoarseRank* of(Rank rank);
  /// The rank that the thread reads; -1: none.
  Rank at_work() const { return job_.valid() ? sought_ : -1; }
  /// Takes what the thread has found, and forgets ranks of which there are too many.
  void begin_frame();

 private:
  struct Source;
  static std::shared_ptr<CoarseRank> read(Source& source, Rank rank);
  void take();

  const std::string path_;
  bool patient_ = false;
  std::shared_ptr<Source> source_;  // the thread's own reader
  std::map<Rank, std::shared_ptr<CoarseRank>> ranks_;
  Rank sought_ = -1;
  std::future<std::shared_ptr<CoarseRank>> job_;
  std::int64_t frame_ = 0;
};

}  // namespace tessera::inspector
