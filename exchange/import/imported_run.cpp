// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/imported_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tessera::exchange {

std::int32_t ImportedRank::lane(std::string_view name, StreamRole role, ImportedRun& run) {
  const TextId id = run.text(name);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].name == id) return static_cast<std::int32_t>(i);
  }
  lanes.push_back({id, role});
  return static_cast<std::int32_t>(lanes.size()) - 1;
}

TextId ImportedRun::text(std::string_view text) {
  const auto found = text_ids_.find(text);
  if (found != text_ids_.end()) return found->second;
  const auto id = static_cast<TextId>(texts_.size());
  texts_.emplace_back(text);
  text_ids_.emplace(texts_.back(), id);
  return id;
}

ImportedRank& ImportedRun::rank(Rank number, const std::string& source) {
  for (ImportedRank& rank : ranks_) {
    if (number >= 0 && rank.rank == number) return rank;
  }
  ImportedRank& rank = ranks_.emplace_back();
  rank.rank = number;
  rank.source = source;
  return rank;
}

std::int32_t ImportedRun::group(const ImportedGroup& group) {
  const auto next = static_cast<std::int32_t>(groups_.size());
  const auto [found, added] = group_ids_.try_emplace({group.name, group.ranks}, next);
  if (added) groups_.push_back(group);
  ImportedGroup& known = groups_[static_cast<std::size_t>(found->second)];
  if (known.description == undescribed) known.description = "";
  if (known.description.empty() && group.description != undescribed) {
    known.description = group.description;
  }
  if (known.size == 0) known.size = group.size;
  if (known.size == 0) known.size = static_cast<std::int32_t>(known.ranks.size());
  return found->second;
}

void ImportedRun::lost(std::string_view what, std::int64_t count) {
  const auto found = lost_.find(what);
  if (found != lost_.end()) {
    found->second += count;
  } else {
    lost_.emplace(what, count);
  }
}

void ImportedRun::warn_count(const std::string& sentence, std::int64_t count) {
  if (count > 0) counted_[sentence] += count;
}

void ImportedRun::warn(std::string sentence) {
  const auto found = std::find(sentences_.begin(), sentences_.end(), sentence);
  if (found == sentences_.end()) sentences_.push_back(std::move(sentence));
}

std::vector<std::string> ImportedRun::warnings() const {
  std::vector<std::string> all = sentences_;
  for (const auto& [sentence, count] : counted_) {
    const auto place = sentence.find("{}");
    all.push_back(place == std::string::npos
                      ? sentence
                      : std::string(sentence).replace(place, 2, fmt::format("{}", count)));
  }
  if (lost_.empty()) return all;
  std::vector<std::string> parts;
  for (const auto& [what, count] : lost_) parts.push_back(fmt::format("{} {}", count, what));
  all.push_back(fmt::format("left out: {}", fmt::join(parts, ", ")));
  return all;
}

}  // namespace tessera::exchange
