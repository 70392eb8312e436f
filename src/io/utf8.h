/* Telling UTF-8 from other bytes: what goes into an SVG or a JSON file must be some. */
#ifndef TH_IO_UTF8_H
#define TH_IO_UTF8_H

/* The length of the character that text begins with; 0 if these bytes are none. */
int th_utf8_length(const unsigned char *text);

#endif
