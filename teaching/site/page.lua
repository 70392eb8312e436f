-- A filter of pandoc: turns a page of the repository into a page of the site. Formulas become MathML, and links lead to pages of
-- the site; a link to a file that the site does not have becomes text. Metadata: source, the page's path in the repository;
-- list, a file with lines "PATH-IN-THE-REPOSITORY PATH-IN-THE-SITE".
package.path = pandoc.path.directory(PANDOC_SCRIPT_FILE) .. "/?.lua;" .. package.path
local formulas = require("formulas")

local places, source, target = {}, "", ""

local function read_metadata(meta)
    source = pandoc.utils.stringify(meta.source)
    for line in io.lines(pandoc.utils.stringify(meta.list)) do
        local from, to = line:match("^(%S+) (%S+)$")
        places[from] = to
    end
    target = places[source]
end

local function normalize(path)
    local parts = {}
    for part in path:gmatch("[^/]+") do
        if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
    end
    return table.concat(parts, "/")
end

local function relative(to)
    local up = target:gsub("[^/]+$", ""):gsub("[^/]+/", "../")
    return up .. to
end

local function place_of(link)
    local path, anchor = link:match("^([^#]*)(.*)$")
    if path == "" or path:match("^%a+:") then return link end
    local folder = source:match("^(.*)/") or ""
    local to = places[normalize(folder .. "/" .. path)]
    return to and relative(to) .. anchor
end

local function convert_link(link)
    local to = place_of(link.target)
    if not to then return link.content end
    link.target = to
    return link
end

local function convert_image(image)
    image.src = place_of(image.src) or image.src
    return image
end

-- A part of a program loses the indentation that all its lines have.
local function without_indentation(text)
    local least = 80
    for spaces in ("\n" .. text):gmatch("\n( *)[^ \n]") do least = math.min(least, #spaces) end
    return ("\n" .. text):gsub("\n" .. (" "):rep(least), "\n"):sub(2)
end

local function convert_code(block)
    if block.classes[1] == "c" then
        block.text = without_indentation(block.text)
        return block
    end
    if #block.classes > 0 then return nil end
    local math = formulas.block(block.text)
    return math and pandoc.RawBlock("html", '<div class="formula-block">' .. math .. "</div>")
end

-- A path of a file that the site has becomes a link.
local function convert_path(code)
    local to = places[code.text]
    return to and to ~= target and pandoc.Link({ code }, relative(to)) or nil
end

local function convert_word(word)
    local math = word.text:find("[_^]") and formulas.word(word.text)
    return math and pandoc.RawInline("html", math)
end

return {
    { Meta = read_metadata },
    { Link = convert_link, Image = convert_image, CodeBlock = convert_code, Code = convert_path, Str = convert_word },
}
