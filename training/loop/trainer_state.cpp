// SPDX-License-Identifier: Apache-2.0
#include "training/loop/trainer_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "engine/text/json_reader.h"

namespace tessera {

std::string to_json(const TrainerPlace& place) {
  nlohmann::ordered_json json;
  json["step"] = place.step;
  json["epoch"] = place.sampler.epoch;
  json["position"] = place.sampler.position;
  json["seed"] = std::to_string(place.seed);  // all 64 bits
  json["sequence_length"] = place.sequence_length;
  json["tokens"] = place.tokens;
  json["fingerprint"] = std::to_string(place.fingerprint);
  if (place.skipped_steps > 0) json["skipped_steps"] = place.skipped_steps;
  if (place.loss_scale) {
    json["loss_scale"] = {{"scale", place.loss_scale->scale},
                          {"growth_tracker", place.loss_scale->growth_tracker},
                          {"hysteresis_left", place.loss_scale->hysteresis_left}};
  }
  return json.dump();
}

namespace {

LossScale::State loss_scale(JsonReader& reader) {
  return {.scale = static_cast<float>(reader.positive("scale", 1)),
          .growth_tracker = static_cast<std::int32_t>(reader.integer("growth_tracker", 0)),
          .hysteresis_left = static_cast<std::int32_t>(reader.integer("hysteresis_left", 1))};
}

// All 64 bits, which a JSON number has not.
std::uint64_t whole_number(JsonReader& reader, const char* key) {
  const std::string text = reader.text(key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) reader.fail(key, "is no number");
  return value;
}

}  // namespace

Result<TrainerPlace> trainer_place(const std::string& json) {
  const auto parsed = parse_json(json, "the trainer's state");
  if (!parsed.ok()) return Status(Code::corrupt, parsed.status().message());
  JsonReader reader(*parsed, "the trainer's state");
  TrainerPlace place;
  place.step = reader.integer("step", 0);
  place.sampler = {reader.integer("epoch", 0), reader.integer("position", 0)};
  place.seed = whole_number(reader, "seed");
  if (reader.has("fingerprint")) {
    place.sequence_length = reader.integer("sequence_length", 1);
    place.tokens = reader.integer("tokens", 1);
    place.fingerprint = whole_number(reader, "fingerprint");
  }
  place.skipped_steps = reader.integer("skipped_steps", 0, 0);
  Status status = reader.status();
  if (status.ok() && reader.has("loss_scale")) {
    JsonReader of_scale((*parsed)["loss_scale"], "the trainer's loss_scale");
    place.loss_scale = loss_scale(of_scale);
    // Where checkpoints before 0.2 have it.
    place.skipped_steps = of_scale.integer("skipped_steps", 0, place.skipped_steps);
    status = of_scale.status();
  }
  if (status.ok()) return place;
  return Status(Code::corrupt, status.message());
}

std::vector<std::string> differences(const TrainerPlace& saved, const TrainerPlace& now,
                                     const std::string& source) {
  std::vector<std::string> found;
  const auto compare = [&](const char* what, auto then, auto here) {
    if (then == here) return;
    found.push_back(fmt::format("the run to resume has {} {}, this one {}", what, then, here));
  };
  compare("seed", saved.seed, now.seed);
  if (saved.fingerprint == 0) return found;  // a checkpoint of 0.1, which says nothing of its data
  compare("sequence length", saved.sequence_length, now.sequence_length);
  compare("tokens to train on:", saved.tokens, now.tokens);
  if (saved.tokens == now.tokens && saved.fingerprint != now.fingerprint) {
    found.push_back(fmt::format("{} has other tokens than the data of the run to resume", source));
  }
  return found;
}

Status refused(const std::vector<std::string>& others) {
  return Status(
      Code::invalid_argument,
      fmt::format("{}: use the same, or resume anyway if another order of samples is meant",
                  fmt::join(others, "; ")));
}

Status check_one_model(const Scheme& scheme, Rank ranks) {
  const auto* owners = std::get_if<ShardedDataParallelOptions>(&scheme);
  if (owners == nullptr) return {};
  const Rank together = owners->groups            ? owners->groups->group_size_max()
                        : owners->group_size == 0 ? ranks
                                                  : owners->group_size;
  if (together >= ranks) return {};  // more than there are: the engine says so
  return Status(
      Code::invalid_argument,
      fmt::format("{} in process groups of {} of {} ranks trains several models apart, "
                  "of which no loss is one: leave the groups out, or start a run for each",
                  name_of(scheme), together, ranks));
}

}  // namespace tessera
