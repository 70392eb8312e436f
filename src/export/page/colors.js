/* Colors of heat maps. Readers who cannot tell red from green see every map: values are blue and orange around 0,
 * gradients purple and green, weights one hue from light to dark. In dark mode 0 is dark. */
const PALETTES = {
    value: {
        light: ["#08408a", "#4b93d1", "#ffffff", "#f09a4a", "#9a3c00"],
        dark: ["#a5d4ff", "#3a7fc4", "#1b1f27", "#bd6a20", "#ffc58a"],
    },
    gradient: {
        light: ["#4a1c80", "#a283c6", "#ffffff", "#6fb58a", "#0a5a34"],
        dark: ["#dcc0ff", "#7f57b8", "#1b1f27", "#2f8f5d", "#a6f0c4"],
    },
    weight: {
        light: ["#ffffff", "#b5dbe2", "#58a9bf", "#1d6b91", "#0a2f57"],
        dark: ["#1b1f27", "#21516b", "#2d8597", "#76c2a4", "#f3f7b5"],
    },
};
const MASKED = { light: "#b9bec6", dark: "#4c525d" };
const NOT_A_NUMBER = "#ff1f8f";
const COLOR_STEPS = 512;
const colorTables = {};

/* Returns "light" or "dark": the reader's choice, or the system's. */
function currentTheme() {
    const chosen = document.documentElement.dataset.theme;
    return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function parseColor(color) {
    return [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
}

/* Returns the color at a place from 0 to 1 between the stops of a palette. */
function colorBetween(stops, place) {
    const scaled = Math.min(Math.max(place, 0), 1) * (stops.length - 1);
    const i = Math.min(Math.floor(scaled), stops.length - 2);
    const a = parseColor(stops[i]),
        b = parseColor(stops[i + 1]);
    return a.map((x, k) => Math.round(x + (b[k] - x) * (scaled - i)));
}

/* Packs a color as a pixel of ImageData on a little-endian machine. */
function packPixel([red, green, blue]) {
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/* Returns the pixels of a palette in the current theme. */
function colorTable(palette, theme) {
    const key = palette + theme;
    if (!colorTables[key]) {
        const stops = PALETTES[palette][theme];
        colorTables[key] = Uint32Array.from({ length: COLOR_STEPS }, (_, i) =>
            packPixel(colorBetween(stops, i / (COLOR_STEPS - 1))),
        );
    }
    return colorTables[key];
}

/* Returns the limits of a scale. Values and gradients are symmetric around 0, weights begin at 0. */
function scaleOf(palette, arrays) {
    const largest = largestOf(arrays);
    return palette === "weight"
        ? { palette, low: 0, high: Math.max(largest, 1e-300) }
        : { palette, low: -largest, high: largest };
}

/* Returns the place of a number on a scale, from 0 to 1. With scale.root the colors follow the square root, so that one
 * scale shows small and large numbers. */
function positionOnScale(scale, x) {
    if (scale.root && scale.high > 0) return (1 + Math.sign(x) * Math.sqrt(Math.abs(x) / scale.high)) / 2;
    return scale.high > scale.low ? (x - scale.low) / (scale.high - scale.low) : 0.5;
}

/* Returns the colors of a cell of a table: its background, and black or white for its text. */
function cellColors(scale, x, hidden) {
    const theme = currentTheme();
    const color =
        hidden || x === -Infinity
            ? parseColor(MASKED[theme])
            : Number.isNaN(x)
              ? parseColor(NOT_A_NUMBER)
              : colorBetween(PALETTES[scale.palette][theme], positionOnScale(scale, x));
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    return { background: `rgb(${color})`, color: luminance > 0.179 ? "#000" : "#fff" };
}

/* Returns true if a mask hides element i of a matrix. */
function isHidden(matrix, i) {
    return matrix.mask !== undefined && matrix.mask.numbers[matrix.mask.offset + i] === 0;
}

/* Fills pixels with the colors of a matrix. */
function colorPixels(pixels, matrix, scale) {
    const theme = currentTheme();
    const table = colorTable(scale.palette, theme);
    const masked = packPixel(parseColor(MASKED[theme])),
        nan = packPixel(parseColor(NOT_A_NUMBER));
    const { numbers, offset } = matrix;
    for (let i = 0; i < pixels.length; i++) {
        const x = numbers[offset + i];
        const place = Math.min(Math.max(positionOnScale(scale, x), 0), 1);
        pixels[i] =
            x === -Infinity || isHidden(matrix, i)
                ? masked
                : x !== x
                  ? nan
                  : table[(place * (COLOR_STEPS - 1) + 0.5) | 0];
    }
}

/* Creates a bar with the colors of a scale between its limits. */
function makeScale(scale) {
    const stops = PALETTES[scale.palette];
    const ticks =
        scale.high === scale.low
            ? [scale.low]
            : scale.palette === "weight"
              ? [scale.low, scale.high]
              : scale.root
                ? [scale.low, scale.low / 4, 0, scale.high / 4, scale.high]
                : [scale.low, 0, scale.high];
    return make(
        "div",
        {
            class: `scale${scale.root ? " root" : ""}`,
            role: "img",
            "aria-label": `Scale from ${shortNumber(scale.low)} to ${shortNumber(scale.high)}`,
        },
        make("div", { class: "bar", style: `--light:${stops.light};--dark:${stops.dark}` }),
        make(
            "div",
            { class: "limits" },
            ticks.map((x) => make("span", {}, scale.root ? Number(x.toPrecision(2)) : shortNumber(x))),
        ),
    );
}
