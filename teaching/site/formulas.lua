-- Converts a formula in plain text, as the lessons write it, to MathML: "dA_ik = Σ_j dC_ij B_kj", "∂u/∂w", "√D", "z²", "Wᵀ",
-- "β1^t", "x_(i+1)". Words stay text. Columns with three or more spaces between them become columns of a table.
local formulas = {}

local SUPERSCRIPTS = { ["ᵀ"] = "<mi mathvariant=\"normal\">T</mi>", ["²"] = "<mn>2</mn>", ["³"] = "<mn>3</mn>" }
local FUNCTIONS = {}
for name in ("exp log tanh cos sin softmax mean variance lse mix rate max"):gmatch("%S+") do FUNCTIONS[name] = true end
local SYMBOLS = {}
for name in ("bias weight target QKV Wq Wk Wv Wo"):gmatch("%S+") do SYMBOLS[name] = true end
local RELATIONS = { ["="] = true, ["←"] = true, ["≈"] = true }

local function escape(text)
    return (text:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub(">", "&gt;"))
end

local function characters(text)
    local list = {}
    for _, code in utf8.codes(text) do list[#list + 1] = utf8.char(code) end
    return list
end

-- A reader of the characters of a text.
local Reader = {}
Reader.__index = Reader

function Reader:peek(ahead) return self[self.at + (ahead or 0)] end

function Reader:take()
    self.at = self.at + 1
    return self[self.at - 1]
end

function Reader:take_while(pattern)
    local text = ""
    while self:peek() and self:peek():match(pattern) do text = text .. self:take() end
    return text
end

local function is_letter(c) return c and c:match("^%a$") end
local function is_greek(c) return c and #c == 2 and utf8.codepoint(c) >= 0x3b1 and utf8.codepoint(c) <= 0x3c9 end

-- Letters and digits of an index: "ni", "0i", "16".
local function index_of(text)
    local parts = {}
    for part in text:gmatch("%d+") do if part == text then return "<mn>" .. part .. "</mn>" end end
    for _, c in ipairs(characters(text)) do parts[#parts + 1] = c:match("%d") and "<mn>" .. c .. "</mn>" or "<mi>" .. c .. "</mi>" end
    return "<mrow>" .. table.concat(parts) .. "</mrow>"
end

local sequence -- below

-- Reads a text in parentheses, without them.
local function in_parentheses(r)
    r:take()
    local depth, text = 1, ""
    while r:peek() do
        local c = r:take()
        depth = depth + (c == "(" and 1 or c == ")" and -1 or 0)
        if depth == 0 then break end
        text = text .. c
    end
    return text
end

-- Reads indices, primes and exponents behind a symbol.
local function with_scripts(r, base, is_sum)
    if r:peek() == "_" and r:peek(1) and r:peek(1):match("[%w(]") then
        r:take()
        local index = r:peek() == "(" and "<mrow>" .. sequence(in_parentheses(r)) .. "</mrow>" or index_of(r:take_while("^%w$"))
        local tag = is_sum and "munder" or "msub"
        base = "<" .. tag .. ">" .. base .. index .. "</" .. tag .. ">"
    end
    while true do
        local c, exponent = r:peek(), nil
        if SUPERSCRIPTS[c] then
            exponent = SUPERSCRIPTS[r:take()]
        elseif c == "'" then
            r:take()
            exponent = "<mo>′</mo>"
        elseif c == "^" then
            r:take()
            exponent = r:peek() == "(" and "<mrow>" .. sequence(in_parentheses(r)) .. "</mrow>" or index_of(r:take_while("^%w$"))
        else
            return base
        end
        base = "<msup>" .. base .. exponent .. "</msup>"
    end
end

-- A name: one letter, a function, "dW" as d and W, or nil if it is a word.
local function name_of(word)
    local rest = word:match("^d(%a+)$")
    if FUNCTIONS[word] then return "<mi mathvariant=\"normal\">" .. word .. "</mi>", true end
    if #word == 1 then return "<mi>" .. word .. "</mi>" end
    if word:match("^W[qkvo]$") then return "<msub><mi>W</mi><mi>" .. word:sub(2) .. "</mi></msub>" end
    if SYMBOLS[word] then return "<mi mathvariant=\"normal\">" .. word .. "</mi>" end
    if rest and (#rest == 1 or SYMBOLS[rest]) then return "<mrow><mi mathvariant=\"normal\">d</mi>" .. name_of(rest) .. "</mrow>" end
    return nil
end

-- Reads one element. Returns its MathML and its kind: "operand", "function", "text" or "operator".
local function element(r)
    local c = r:peek()
    if c:match("^%d$") then
        local number = r:take_while("^[%d]$")
        while r:peek() and r:peek():match("^[.,]$") and r:peek(1) and r:peek(1):match("^%d$") do number = number .. r:take() .. r:take_while("^%d$") end
        return with_scripts(r, "<mn>" .. number .. "</mn>"), "operand"
    elseif is_letter(c) then
        local start, word = r.at, r:take_while("^%a$")
        local name, is_function = name_of(word)
        if name then return with_scripts(r, name), is_function and "function" or "operand" end
        while r:peek() == " " and is_letter(r:peek(1)) do -- a phrase
            local before = r.at
            r:take()
            local next_word = r:take_while("^%a$")
            if #next_word == 1 and next_word ~= "a" or name_of(next_word) and FUNCTIONS[next_word] == nil and #next_word > 1 then
                r.at = before
                break
            end
            word = word .. " " .. next_word
        end
        return "<mtext>" .. escape(word) .. "</mtext>", start and "text"
    elseif is_greek(c) then
        local base = "<mi>" .. r:take() .. "</mi>"
        if r:peek() and r:peek():match("^%d$") then base = "<msub>" .. base .. "<mn>" .. r:take() .. "</mn></msub>" end
        return with_scripts(r, base), "operand"
    elseif c == "Σ" then
        return with_scripts(r, "<mo>" .. r:take() .. "</mo>", true), "function"
    elseif c == "√" then
        r:take()
        local inside = r:peek() == "(" and sequence(in_parentheses(r)) or element(r)
        return "<msqrt>" .. inside .. "</msqrt>", "operand"
    elseif c == "∂" then
        local top = "<mo>∂</mo>"
        r:take()
        top = top .. element(r)
        if r:peek() == "/" and r:peek(1) == "∂" then
            r:take()
            r:take()
            return "<mfrac><mrow>" .. top .. "</mrow><mrow><mo>∂</mo>" .. element(r) .. "</mrow></mfrac>", "operand"
        end
        return "<mrow>" .. top .. "</mrow>", "operand"
    elseif c == "(" then
        return with_scripts(r, "<mrow><mo stretchy=\"false\">(</mo>" .. sequence(in_parentheses(r)) .. "<mo stretchy=\"false\">)</mo></mrow>"), "operand"
    elseif c == "." and r:peek(1) == "." then
        r:take_while("^%.$")
        return "<mo>…</mo>", "operand"
    end
    r:take()
    return "<mo" .. ((c == "[" or c == "]" or c == "/" or c == "|") and " stretchy=\"false\"" or "") .. ">" .. escape(c) .. "</mo>",
        (c == "]" and "operand") or "operator"
end

-- Converts a text to elements. A space between two operands is a product.
function sequence(text)
    local r = setmetatable(characters(text), Reader)
    r.at = 1
    local parts, before = {}, "operator"
    while r:peek() do
        local spaces = r:take_while("^ $")
        if not r:peek() then break end
        local part, kind = element(r)
        if kind == "text" or before == "text" then
            parts[#parts + 1] = spaces ~= "" and "<mspace width=\"0.3em\"/>" or ""
        elseif spaces ~= "" and before ~= "operator" and kind ~= "operator" then
            parts[#parts + 1] = "<mspace width=\"0.2em\"/>"
        end
        parts[#parts + 1] = part
        before = kind
    end
    return table.concat(parts)
end

-- Divides "a = b" into "a" and "= b", at the first relation outside of brackets.
local function sides(text)
    local depth, left = 0, ""
    local list = characters(text)
    for i, c in ipairs(list) do
        depth = depth + ((c == "(" or c == "[") and 1 or (c == ")" or c == "]") and -1 or 0)
        if depth == 0 and RELATIONS[c] then return left, table.concat(list, "", i) end
        left = left .. c
    end
    return nil, text
end

local function cell(text) return "<mtd>" .. sequence(text) .. "</mtd>" end

local function row(line)
    line = line:gsub(" +([=≈←]) +", " %1 "):gsub(" += +", " = ")
    local cells = {}
    for part in (line:gsub("^ +", "") .. "   "):gmatch("(.-)   +") do
        if part ~= "" then
            if #cells == 0 then
                local left, right = sides(part)
                cells[1], cells[2] = cell(left or ""), cell(right)
            else
                cells[#cells + 1] = cell(part)
            end
        end
    end
    return "<mtr>" .. table.concat(cells) .. "</mtr>"
end

-- Returns the block as MathML, or nil if no line has a relation, or if it is a command.
function formulas.block(text)
    if text:match("^scripts/") or text:match("^%$ ") or not (text:find("=", 1, true) or text:find("←", 1, true) or text:find("≈", 1, true)) then
        return nil
    end
    local rows = {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        if line:match("%S") then rows[#rows + 1] = row(line) end
    end
    return "<math display=\"block\"><mtable displaystyle=\"true\">" .. table.concat(rows) .. "</mtable></math>"
end

-- Returns a word with an index or an exponent as MathML, such as "q_td," or "−a_j" or "∂a_i/∂s_j" or "β1^t" or "10000^(−2i/D)" or
-- "exp(z_k)"; nil for another word.
function formulas.word(text)
    local name, argument, rest = text:match("^(%a+)(%b())([.,;:)]*)$")
    if FUNCTIONS[name] then return "<math>" .. sequence(name .. argument) .. "</math>" .. escape(rest) end
    local before, body, after = text:match("^(%(*)(.-)([.,;:]*)$")
    while body:match("%)$") and select(2, body:gsub("%)", "")) > select(2, body:gsub("%(", "")) do -- a parenthesis of the sentence
        body, after = body:sub(1, -2), ")" .. after
    end
    local unsigned = body:gsub("^−", "")
    local first = characters(unsigned)[1]
    local base = unsigned:match("^(%a+)_[%w(]") or unsigned:match("^∂(%a+)_%w") or unsigned:match("^∂(%a)/∂%a_%w") or
        unsigned:match("^(Σ)_%w") or unsigned:match("^(%d+)^%b()$") or is_greek(first) and unsigned:match("^" .. first .. "%d*[_^][%w(]") and first
    if not base or not (base == "Σ" or base == first or base:match("^%d") or name_of(base)) or FUNCTIONS[base] then return nil end
    return escape(before) .. "<math>" .. sequence(body) .. "</math>" .. escape(after)
end

return formulas
