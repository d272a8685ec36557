// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace tessera::inspector {
namespace {

constexpr std::string_view recording_ending = ".partial";

std::optional<Note> note_of(const std::string& line) {
  Note note;
  const char* const end = line.data() + line.size();
  const auto number = std::from_chars(line.data(), end, note.time);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '\t') return {};
  note.text.assign(number.ptr + 1, end);
  return note;
}

bool earlier(const Note& note, Time time) { return note.time < time; }

}  // namespace

Notes::Notes(const std::string& trace) : path_(trace) {
  if (path_.ends_with(recording_ending)) path_.resize(path_.size() - recording_ending.size());
  path_ += ".notes";
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    if (const auto note = note_of(line)) {
      set_text(add(note->time), note->text);
    } else if (!line.empty()) {
      others_.push_back(line);
    }
  }
}

std::size_t Notes::add(Time time) {
  const auto at = std::lower_bound(notes_.begin(), notes_.end(), time, earlier);
  const auto place = static_cast<std::size_t>(at - notes_.begin());
  if (at == notes_.end() || at->time != time) notes_.insert(at, {time, ""});
  return place;
}

void Notes::set_text(std::size_t place, const std::string& text) {
  notes_[place].text = text;
  std::replace(notes_[place].text.begin(), notes_[place].text.end(), '\n', ' ');
}

void Notes::remove(std::size_t place) {
  notes_.erase(notes_.begin() + static_cast<std::ptrdiff_t>(place));
}

Status Notes::save() const {
  namespace fs = std::filesystem;
  std::error_code error;
  if (notes_.empty() && others_.empty()) {
    fs::remove(path_, error);
    if (!error) return {};
    return {Code::io_error, fmt::format("Cannot remove \"{}\": {}.", path_, error.message())};
  }
  const std::string beside = path_ + ".new";
  {
    std::ofstream file(beside);
    for (const Note& note : notes_) file << note.time << '\t' << note.text << '\n';
    for (const std::string& line : others_) file << line << '\n';
    if (!file.flush()) {
      fs::remove(beside, error);
      return {Code::io_error, fmt::format("Cannot write \"{}\": the notes are kept until the "
                                          "inspector ends.",
                                          path_)};
    }
  }
  fs::rename(beside, path_, error);
  if (!error) return {};
  return {Code::io_error, fmt::format("Cannot write \"{}\": {}.", path_, error.message())};
}

}  // namespace tessera::inspector
