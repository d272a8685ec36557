// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/drawing.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tessera::inspector {

float text_width(ImFont* font, const std::string& words) {
  return font->CalcTextSizeA(font->FontSize, 1e9F, 0, words.c_str()).x;
}

void draw_text(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words) {
  ImGui::GetWindowDrawList()->AddText(
      font, font->FontSize, ImVec2(std::floor(at.x), std::floor(at.y)), colour, words.c_str());
}

void draw_text_right(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words) {
  draw_text(font, {at.x - text_width(font, words), at.y}, colour, words);
}

namespace {

// "17.0 ms" is one word: a unit alone at the begin of a line says nothing.
bool is_unit(std::string_view word) {
  constexpr std::string_view units[] = {"%",   "ns",  "µs",  "ms",   "s",    "min",  "h",   "B",
                                        "kB",  "MB",  "GB",  "TB",   "PB",   "KiB",  "MiB", "GiB",
                                        "TiB", "PiB", "B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  while (!word.empty() && std::string_view(".,;:)").find(word.back()) != std::string_view::npos) {
    word.remove_suffix(1);
  }
  return std::find(std::begin(units), std::end(units), word) != std::end(units);
}

// One past the word that begins at `from`, with its unit.
std::size_t word_end(const std::string& words, std::size_t from) {
  const auto end_from = [&](std::size_t at) { return std::min(words.find(' ', at), words.size()); };
  const std::size_t end = end_from(from);
  if (end == words.size() || end == from) return end;
  const bool number = words[end - 1] >= '0' && words[end - 1] <= '9';
  const std::size_t next = end_from(end + 1);
  return number && is_unit(std::string_view(words).substr(end + 1, next - end - 1)) ? next : end;
}

// A pixel more, as sums of widths are rounded: lines that fit are not broken again.
constexpr float rounding_px = 1;

}  // namespace

std::string wrapped_lines(ImFont* font, const std::string& words, float width) {
  std::string lines;
  const float space = text_width(font, " ");
  float line = 0;  // how wide the last one is: letters have no kerning, so widths add up
  for (std::size_t from = 0; from < words.size();) {
    const std::size_t end = word_end(words, from);
    const std::string word = words.substr(from, end - from);
    const float wide = text_width(font, word);
    const bool fits = line + space + wide <= width;
    if (from > 0) lines += fits ? ' ' : '\n';
    line = from > 0 && fits ? line + space + wide : wide;
    lines += word;
    from = end + 1;
  }
  return lines;
}

WrappedText::WrappedText(ImFont* font, const std::string& words, float width)
    : font_(font), lines_(wrapped_lines(font, words, width)), width_(width + rounding_px) {
  height_ = font->CalcTextSizeA(font->FontSize, 1e9F, width_, lines_.c_str()).y;
}

void WrappedText::draw(ImVec2 at, ImU32 colour, ImDrawList* on) const {
  on->AddText(font_, font_->FontSize, ImVec2(std::floor(at.x), std::floor(at.y)), colour,
              lines_.c_str(), nullptr, width_);
}

float draw_wrapped(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words, float width) {
  const WrappedText text(font, words, width);
  text.draw(at, colour);
  return text.height();
}

void draw_dashes(float x0, float x1, float y, ImU32 colour, float dash_px) {
  for (float x = x0; x < x1; x += 2 * dash_px) {
    ImGui::GetWindowDrawList()->AddRectFilled({x, y}, {std::fmin(x + dash_px, x1), y + 1}, colour);
  }
}

void draw_diagonal(const Surface& ui, ImVec2 from, ImVec2 to, ImU32 colour) {
  // Lines of Dear ImGui and smoothed edges have normals by an instruction for approximate roots,
  // whose results differ between makers of processors, and so would pictures.
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImDrawListFlags flags = draw->Flags;
  draw->Flags &= ~ImDrawListFlags_AntiAliasedFill;
  const float left = -0.25F, right = left + ui.theme.px(1);  // no edge through a pixel's middle
  draw->AddQuadFilled({from.x + left, from.y}, {to.x + left, to.y}, {to.x + right, to.y},
                      {from.x + right, from.y}, colour);
  draw->Flags = flags;
}

void draw_swatch(const Surface& ui, ImVec2 at, ImU32 colour, bool hatched) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float size = ui.theme.px(9);
  draw->AddRectFilled(at, {at.x + size, at.y + size}, colour, ui.theme.px(2));
  if (!hatched) return;
  draw->PushClipRect(at, {at.x + size, at.y + size}, true);
  for (float x = -size; x < size; x += ui.theme.px(3)) {
    draw_diagonal(ui, {at.x + x, at.y + size}, {at.x + x + size, at.y}, ui.theme.dim);
  }
  draw->PopClipRect();
}

namespace {

constexpr const char* dots = "…";
constexpr std::size_t least_head = 3;     // bytes before the dots; less says nothing
constexpr std::size_t longest_part = 24;  // of a path: longer ones are cut

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The bytes of the beginning of `words` that fit into `width` in the current font.
std::size_t bytes_within(const std::string& words, float width) {
  const ImFont* const font = ImGui::GetFont();
  const char* rest = words.c_str();
  // ImGui stops where a width is reached, not where it is exceeded.
  font->CalcTextSizeA(ImGui::GetFontSize(), std::floor(width) + 0.001F, 0, words.c_str(),
                      words.c_str() + words.size(), &rest);
  return static_cast<std::size_t>(rest - words.c_str());
}

// The end of `words` that fits behind the dots; "" if not even a few letters do.
std::string fitted_end(const std::string& words, float width) {
  std::size_t low = 0, high = words.size();  // the end from `high` on fits
  while (high - low > 1) {
    std::size_t middle = (low + high) / 2;
    while (middle < high && !starts_character(words[middle])) ++middle;
    if (middle == high) break;
    const bool fits = ImGui::CalcTextSize((dots + words.substr(middle)).c_str()).x <= width;
    (fits ? high : low) = middle;
  }
  return words.size() - high < least_head ? "" : dots + words.substr(high);
}

}  // namespace

std::string fitted(const std::string& words, float width) {
  if (ImGui::CalcTextSize(words.c_str()).x <= width) return words;
  const std::size_t kept = bytes_within(words, width - ImGui::CalcTextSize(dots).x);
  return kept < least_head ? "" : words.substr(0, kept) + dots;
}

std::string fitted_middle(const std::string& words, float width) {
  constexpr float head_share = 0.4F;
  if (ImGui::CalcTextSize(words.c_str()).x <= width) return words;
  const std::string head = words.substr(0, bytes_within(words, head_share * width));
  const std::string end = fitted_end(words, width - ImGui::CalcTextSize(head.c_str()).x);
  return head.size() < least_head || end.empty() ? fitted(words, width) : head + end;
}

std::string fitted_path(const std::string& path, float width) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < path.size();) {
    const std::string rest = path.substr(at);
    if (ImGui::CalcTextSize(rest.c_str()).x <= width) return rest;
    last = at;
    const std::size_t dot = path.find('.', at);
    if (dot == std::string::npos) break;
    at = dot + 1;
  }
  return path.size() - last > longest_part ? fitted_end(path.substr(last), width) : "";
}

void field(const Surface& ui, ViewState& state, const std::string& group, const char* name,
           const std::string& value) {
  state.fields[group + "/" + name] = value;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::PushFont(ui.fonts.body);
  const float room = width - text_width(ui.fonts.body, value) - ui.theme.px(6);
  draw_text(ui.fonts.body, at, ui.theme.dim, fitted(name, room));
  ImGui::PopFont();
  draw_text_right(ui.fonts.body, {at.x + width, at.y}, ui.theme.text, value);
  ImGui::Dummy({width, ui.fonts.body->FontSize + ui.theme.px(3)});
}

void heading(const Surface& ui, const std::string& words) {
  ImGui::PushFont(ui.fonts.strong);
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopFont();
  ImGui::Dummy({0, ui.theme.px(2)});
}

bool tab_button(Surface& ui, ViewState& state, const char* label, const std::string& name,
                bool on) {
  ImGui::PushStyleColor(ImGuiCol_Button, on ? ui.theme.field_active : ui.theme.ground);
  ImGui::PushStyleColor(ImGuiCol_Text, on ? ui.theme.text : ui.theme.dim);
  const bool pressed = ImGui::Button(label);
  ImGui::PopStyleColor(2);
  state.place(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  return pressed;
}

}  // namespace tessera::inspector
