// SPDX-License-Identifier: Apache-2.0

package redlock.redissontest;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** One line of the protocol: names and values, names may repeat. */
final class Form {
    private final Map<String, List<String>> fields = new HashMap<>();

    Form() {
    }

    Form(String line) {
        for (String field : line.split("&")) {
            int eq = field.indexOf('=');
            put(decode(field.substring(0, eq)), decode(field.substring(eq + 1)));
        }
    }

    Form put(String name, Object value) {
        fields.computeIfAbsent(name, n -> new ArrayList<>()).add(String.valueOf(value));
        return this;
    }

    List<String> all(String name) {
        return fields.getOrDefault(name, List.of());
    }

    /** The field's first value, empty when there is none. */
    String text(String name) {
        return all(name).isEmpty() ? "" : all(name).get(0);
    }

    /** The field as a number, 0 when there is none. */
    long number(String name) {
        return text(name).isEmpty() ? 0 : Long.parseLong(text(name));
    }

    /** A duration in whole milliseconds, rounded up: a short lease must not turn into 0, which means none. */
    long millis(String name) {
        return -Math.floorDiv(-number(name), 1_000_000L);
    }

    /** What the request is about, as a key. */
    String target() {
        return text("kind") + " " + text("master") + " " + all("name");
    }

    @Override
    public String toString() {
        return String.join("&", fields.entrySet().stream()
                .flatMap(f -> f.getValue().stream().map(v -> encode(f.getKey()) + "=" + encode(v))).toList());
    }

    private static String decode(String s) {
        return URLDecoder.decode(s, StandardCharsets.UTF_8);
    }

    private static String encode(String s) {
        return URLEncoder.encode(s, StandardCharsets.UTF_8);
    }
}
