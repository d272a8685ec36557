// SPDX-License-Identifier: Apache-2.0
// Where all ranks meet, and how they part when something went wrong.
#include <fmt/format.h>

#include <algorithm>

#include "engine/backends/host/host_backend.h"
#include "tessera/assert.h"

namespace tessera {

// Ends the run of all ranks. An error whose cause is here is reported at once. A lost message, a
// deadline or a difference may be the consequence of another rank's error: then rank 0, which has
// everybody's reports, decides what is said (RankWatch::conclude), and the run of all ends with the
// same sentence.
Status HostBackend::fail(const Status& why) {
  if (!failure_.ok()) return failure_;
  TESSERA_ASSERT(!why.ok(), "a run fails for a reason");
  const bool perhaps_elsewhere = why.code() == Code::communication_error ||
                                 why.code() == Code::timed_out || why.code() == Code::divergent;
  failure_ = why;
  const bool alone = transport_->ranks() == 1;
  if (!alone && !transport_->ended().ok()) {
    failure_ = transport_->ended();
  } else if (!alone && perhaps_elsewhere) {
    failure_ = watch_.conclude(why);
  } else if (!alone) {
    give_up(why);
  }
  TESSERA_ASSERT(!failure_.ok(), "ranks agree on a reason");
  if (trace_) trace_->fail(failure_);
  return failure_;
}

void HostBackend::give_up(const Status& why) {
  if (failure_.ok()) failure_ = why;
  if (trace_) trace_->fail(failure_);
  transport_->abort(
      Status(Code::communication_error, fmt::format("rank {} gave up: {}", rank_, why.message())));
}

Status HostBackend::gather(std::span<const std::byte> own, std::span<std::byte> all,
                           const std::string& what) {
  TESSERA_TRY(failure_);
  auto request = transport_->all_gather(control, own, all);
  if (!request.ok()) return fail(request.status());
  return complete(*request, what);
}

Status HostBackend::complete(Transport::Request request, const std::string& what) {
  bool done = false;
  Status failed;
  TESSERA_TRY(wait_until(
      [&] {
        auto tested = done ? Result<bool>(true) : transport_->test(request);
        if (!tested.ok()) failed = tested.status();
        done = !tested.ok() || *tested;
        return done;
      },
      what));
  return failed.ok() ? Status{} : fail(failed);
}

// Lengths go first, so that all texts can be padded to the longest.
Result<std::vector<std::string>> HostBackend::exchange(const std::string& own) {
  const auto ranks = static_cast<std::size_t>(transport_->ranks());
  const std::uint64_t length = own.size();
  std::vector<std::uint64_t> lengths(ranks);
  TESSERA_TRY(gather(std::as_bytes(std::span(&length, 1)),
                     std::as_writable_bytes(std::span(lengths)), "an exchange of lengths"));
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> texts(ranks);
  if (longest == 0) return texts;
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * ranks, '\0');
  TESSERA_TRY(gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)),
                     "an exchange of texts"));
  for (std::size_t r = 0; r < ranks; ++r) texts[r] = all.substr(r * longest, lengths[r]);
  return texts;
}

Result<std::vector<HostBackend::Meeting>> HostBackend::meet(std::string_view what,
                                                            std::string_view name, float value) {
  // All ranks come here in the same order, so a hash of their calls is compared on the way. It
  // finds ranks that have gone different ways even where reports to rank 0 were lost.
  TESSERA_TRY(failure_);
  watch_.log().add(what, name);
  if (Status heard = watch_.logged(); !heard.ok()) return fail(heard);
  watch_.report();
  const Meeting own{.hash = watch_.log().hash(), .value = value};
  std::vector<Meeting> all(static_cast<std::size_t>(transport_->ranks()));
  const std::string place = fmt::format("collective {}, {}{}{}", watch_.log().count(), what,
                                        name.empty() ? "" : " ", name);
  TESSERA_TRY(
      gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)), place));
  const auto other = std::find_if(
      all.begin(), all.end(), [&own](const Meeting& of_rank) { return of_rank.hash != own.hash; });
  if (other == all.end()) return all;
  return fail(Status(Code::divergent,
                     fmt::format("ranks {} and {} differ at or before {}: all ranks must run the "
                                 "same program with the same model and options",
                                 rank_, other - all.begin(), place)));
}

}  // namespace tessera
