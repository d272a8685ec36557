// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/start_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "inspector/app/commands.h"
#include "inspector/app/panels.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

constexpr float page_width = 1120, two_columns_from = 860, label_width = 230, lines_from = 460;
constexpr float page_pad = 28;

constexpr Example table_of_examples[] = {
    {"gpt2-8-h100", "", "all", "GPT-2 on eight H100: one of the ranks is slow"},
    {"gpt2-8-h100", "gpt2-8-h100-fused", "compare", "the same beside a run with faster kernels"},
    {"real-h100", "simulated-h100", "compare", "a real H100, and the same run simulated"},
    {"real-cpu", "simulated-cpu", "compare", "two processes on CPUs, and the same run simulated"},
    {"out-of-memory", "", "holders", "Llama-3-70B on eight GPUs: where memory was too small"},
    {"offload-nvme", "", "all", "Llama-3-8B by ZeRO-3, parameters and optimizer on drives"},
    {"straggler-16384", "", "overview", "16,384 GPUs, of which one is slow"},
    {"torch-fsdp2", "", "communication", "FSDP2 of PyTorch, imported from its profiler"},
    {"scheme-fully_shard", "fused", "compare", "FSDP2 (fully_shard) beside faster kernels"},
    {"scheme-full_shard", "", "all", "FSDP1, full sharding"},
    {"scheme-hybrid_shard", "", "all", "FSDP1, sharded in groups of four"},
    {"scheme-replicate", "", "all", "DDP"},
    {"scheme-sharded_data_parallel", "", "all", "FairScale's sharded data parallel"},
    {"scheme-zero1", "", "all", "ZeRO-1"},
    {"scheme-zero2", "", "all", "ZeRO-2"},
    {"scheme-zero3", "", "all", "ZeRO-3"}};

bool there(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

void draw_line(const Surface& ui, const std::string& key, const std::string& meaning) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float room = ImGui::GetContentRegionAvail().x, keys = ui.theme.px(96);
  ImGui::PushFont(ui.fonts.strong);
  draw_text(ui.fonts.strong, at, ui.theme.text, fitted(key, std::min(keys, room)));
  ImGui::PopFont();
  const float wide = std::max(room - keys, 1.0F);
  const ImVec2 right{at.x + keys, at.y};
  const float tall = draw_wrapped(ui.fonts.body, right, ui.theme.dim, meaning, wide);
  ImGui::Dummy({1, tall + ui.theme.px(2)});
}

using KeyLine = std::pair<std::string, std::string>;

std::vector<KeyLine> key_lines() {
  std::vector<KeyLine> lines;
  for (const PanelRow& row : panel_rows()) {
    if (row.key != 0) lines.emplace_back(std::string(1, row.key), row.tab);
  }
  for (const Command& command : commands()) lines.emplace_back(keys_text(command), command.title);
  for (const MouseHabit& habit : mouse_habits()) lines.emplace_back(habit.gesture, habit.meaning);
  return lines;
}

void draw_keys(const Surface& ui, const char* title, std::span<const KeyLine> lines) {
  heading(ui, title);
  for (const auto& [keys, meaning] : lines) draw_line(ui, keys, meaning);
}

}  // namespace

std::span<const Example> examples() { return table_of_examples; }

std::string StartPage::file_of(const char* example) const {
  return traces_ + "/" + example + ".tessera";
}

// A row that can be clicked: what it is called, and beside or below that what it is.
bool StartPage::draw_row(Surface& ui, const std::string& name, const std::string& shown,
                         const std::string& about) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = std::max(ImGui::GetContentRegionAvail().x, 1.0F);
  const bool beside = width >= ui.theme.px(lines_from);
  const float line = ui.fonts.body->FontSize + ui.theme.px(4);
  const float height = beside ? line + ui.theme.px(6) : 2 * line + ui.theme.px(6);
  const bool pressed = ImGui::Selectable(("##" + name).c_str(), false, 0, {width, height});
  state_.place(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  const float pad = ui.theme.px(6), names = beside ? ui.theme.px(label_width) : width;
  const float y = at.y + ui.theme.px(5);
  ImGui::PushFont(ui.fonts.body);
  draw_text(ui.fonts.body, {at.x + pad, y}, ui.theme.accent, fitted(shown, names - 2 * pad));
  const ImVec2 second = beside ? ImVec2(at.x + names, y) : ImVec2(at.x + pad, y + line);
  draw_text(ui.fonts.body, second, ui.theme.dim, fitted(about, at.x + width - second.x - pad));
  ImGui::PopFont();
  return pressed;
}

std::optional<Wanted> StartPage::draw_entry(Surface& ui, const std::string& problem) {
  heading(ui, "Open a trace");
  const float button = ImGui::CalcTextSize("Open").x + 2 * ImGui::GetStyle().FramePadding.x;
  const float room = ImGui::GetContentRegionAvail().x - button - ui.theme.px(8);
  bool asked = false;
  if (room > ui.theme.px(60)) {
    ImGui::SetNextItemWidth(room);
    asked =
        ImGui::InputTextWithHint("##path", "name of a trace, or drop its file here", text_.data(),
                                 text_.size(), ImGuiInputTextFlags_EnterReturnsTrue);
    state_.place("start/path", ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
    ImGui::SameLine(0, ui.theme.px(8));
  }
  asked |= ImGui::Button("Open");
  state_.place("start/open", ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  state_.fields["start/problem"] = problem;
  if (!problem.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, ui.colours().fail);
    ImGui::TextWrapped("⚠ %s", problem.c_str());
    ImGui::PopStyleColor();
  }
  ImGui::Dummy({1, ui.theme.px(14)});
  const std::string path = text_.data();
  if (!asked || path.empty()) return {};
  return Wanted{path, "", "all"};
}

std::optional<Wanted> StartPage::draw_examples(Surface& ui) {
  std::optional<Wanted> wanted;
  heading(ui, "Examples");
  std::size_t shown = 0;
  for (const Example& example : examples()) {
    const std::string path = file_of(example.file);
    const bool alone = std::string_view(example.against).empty();
    if (traces_.empty() || !there(path) || (!alone && !there(file_of(example.against)))) continue;
    const std::string name =
        alone ? std::string(example.file) : fmt::format("{}/{}", example.file, example.against);
    const std::string title =
        alone ? std::string(example.file) : fmt::format("{}, compared", example.file);
    ++shown;
    if (draw_row(ui, "start/example/" + name, title, example.shows)) {
      wanted = {path, alone ? "" : file_of(example.against), example.panel};
    }
  }
  if (shown == 0) {
    ImGui::PushStyleColor(ImGuiCol_Text, ui.theme.dim);
    ImGui::TextWrapped("The folder traces/ of the sources is not beside the program.");
    ImGui::PopStyleColor();
  }
  ImGui::Dummy({1, ui.theme.px(14)});
  return wanted;
}

std::optional<Wanted> StartPage::draw_recent(Surface& ui, const RecentFiles& recent) {
  std::optional<Wanted> wanted;
  const std::vector<std::string> traces = recent.there();
  if (traces.empty()) return wanted;
  heading(ui, "Opened last");
  for (std::size_t k = 0; k < traces.size(); ++k) {
    const std::filesystem::path path(traces[k]);
    if (draw_row(ui, fmt::format("start/recent/{}", k), path.filename().string(),
                 path.parent_path().string())) {
      wanted = {traces[k], "", "all"};
    }
  }
  ImGui::Dummy({1, ui.theme.px(14)});
  return wanted;
}

std::optional<Wanted> StartPage::draw(Surface& ui, const RecentFiles& recent,
                                      const std::string& problem, bool back) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float pad = std::min(ui.theme.px(page_pad), screen.x / 16);
  const float gap = ui.theme.px(40), high = screen.y - 2 * pad;
  const float page = std::min(screen.x - 2 * pad, ui.theme.px(page_width));
  const bool beside = page >= ui.theme.px(two_columns_from);
  const float left = beside ? std::floor(page * 0.62F) : page;
  const float right = page - left - gap;
  // Keys are two columns where one is not high enough and there is room for both.
  const std::vector<KeyLine> keys = key_lines();
  const float line = ui.fonts.body->FontSize + ui.theme.px(2) + ImGui::GetStyle().ItemSpacing.y;
  const bool halves = beside && line * static_cast<float>(keys.size() + 1) > high &&
                      screen.x - 2 * pad >= page + gap + right;
  const float width = halves ? page + gap + right : page;
  std::optional<Wanted> wanted;
  const auto take = [&](std::optional<Wanted> from) {
    if (from) wanted = std::move(from);
  };
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(screen);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, ui.theme.panel);
  ImGui::Begin("start", nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleVar();
  ImGui::SetCursorPos({std::floor((screen.x - width) / 2), pad});
  ImGui::BeginGroup();
  // A child as high as its content: the page scrolls as a whole.
  ImGui::BeginChild("left", {left, high}, false);
  ImGui::PushFont(ui.fonts.title);
  ImGui::TextUnformatted("Tessera inspector");
  ImGui::PopFont();
  ImGui::Dummy({1, ui.theme.px(8)});
  take(draw_entry(ui, problem));
  take(draw_recent(ui, recent));
  take(draw_examples(ui));
  if (!beside) draw_keys(ui, "Keys", keys);
  ImGui::EndChild();
  const std::span<const KeyLine> all(keys);
  const std::size_t first = halves ? (all.size() + 1) / 2 : all.size();
  const auto column = [&](const char* name, const char* title, std::span<const KeyLine> lines) {
    ImGui::SameLine(0, gap);
    ImGui::BeginChild(name, {right, high}, false);
    draw_keys(ui, title, lines);
    ImGui::EndChild();
  };
  if (beside) column("keys", "Keys", all.first(first));
  if (halves) column("more keys", " ", all.subspan(first));
  ImGui::EndGroup();
  ImGui::End();
  ImGui::PopStyleColor();
  state_.fields["start"] = back ? "Esc: back to the trace" : "";
  return wanted;
}

}  // namespace tessera::inspector
