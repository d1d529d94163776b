#!/usr/bin/env perl
# Predict with a model file of accams:  perl reader.pl [--ids | --info] MODEL < PAIRS
#
# A pair is a line "row col" of positions from 0; -1, or a position beyond the end, is an unknown row or column. With
# --ids the numbers are ids. It prints one prediction per line, or with --info what the file holds.
# Written from docs/internals/files.md alone, with core modules only, for a Perl with integers of 64 bits.
use 5.022;
use strict;
use warnings FATAL => 'all';
use Compress::Raw::Zlib qw(crc32);
use Getopt::Long qw(GetOptions);
use JSON::PP ();
use List::Util qw(any max sum0);
use POSIX qw(ceil erfc);

my %BYTES = (BOOL => 1, U8 => 1, I8 => 1, U16 => 2, I16 => 2, F16 => 2, BF16 => 2);
@BYTES{qw(U32 I32 F32 U64 I64 F64)} = (4, 4, 4, 8, 8, 8);
my @SIDES = ('row', 'col');

# Parts which do not change what one sum predicts for a row and a column of the matrix, or which we read.
my %KNOWN = map { $_ => 1 } qw(stencils values scale ids user_features item_features item_map spread activity
    interactions history evaluation updates fit);
my %REFUSED = (
    posterior => 'it has many draws: compress the model first (compress)',
    linear    => 'it has a linear part: compress the model first (compress)',
);

sub foreign { die "not a model file of accams: $_[0]\n" }
sub damaged { die "damaged model file: $_[0]\n" }
sub refused { die "cannot read this model: $_[0]\n" }

# JSON::PP refuses NaN and infinities, which parameters of a fit may be; no number that we need is one.
sub parse_json {
    my ($text) = @_;
    $text =~ s/("[^"\\]*+(?:\\.[^"\\]*+)*+")|-?Infinity\b|\bNaN\b/$1 \/\/ 'null'/ges;
    my $value = eval { JSON::PP->new->decode($text) };
    return ref $value eq 'HASH' ? $value : foreign('its header is no JSON object');
}

sub is_count { return defined $_[0] && $_[0] =~ /^\d{1,15}\z/ }

# Return our header and the type and bytes of each tensor.
sub read_container {
    my ($bytes) = @_;
    my $length = length $bytes < 8 ? foreign('it is shorter than a header') : unpack 'Q<', $bytes;
    foreign('its header is longer than the file') if $length > length($bytes) - 8;
    my $head = substr $bytes, 0, 8 + $length;
    my $text = substr $head, 8;

    # The checksum was computed with zeros in its own place.
    $head =~ s/"checksum":"\K([0-9a-f]{8})/00000000/ or foreign('its header has no checksum');
    damaged('the checksum of its header differs') if hex $1 != crc32($head);
    foreign('its header is not UTF-8') if !utf8::decode($text);
    my $entries = parse_json($text);
    my $header  = parse_json((delete $entries->{__metadata__})->{accams} // foreign('it does not name accams'));

    my @entries = map { { name => $_, %{ $entries->{$_} } } } keys %$entries;
    damaged('a tensor has no place') if any { !is_count($_) } map { @{ $_->{data_offsets} }[0, 1] } @entries;
    my ($at, %tensors) = 8 + $length;
    my $by = sub { $a->{data_offsets}[$_[0]] <=> $b->{data_offsets}[$_[0]] };
    for (sort { $by->(0) || $by->(1) } @entries) {
        my ($name,  $type) = @$_{qw(name dtype)};
        my ($begin, $end)  = map { 8 + $length + $_ } @{ $_->{data_offsets} };
        my $size = $BYTES{$type} // refused("tensor $name has the unknown type $type");
        $size *= $_ for @{ $_->{shape} };
        damaged("tensor $name does not follow the one before") if $begin != $at;
        damaged("tensor $name does not have the size of its shape") if $size != $end - $begin;
        damaged("tensor $name is cut short") if $end > length $bytes;
        my $content = substr $bytes, $begin, $size;
        damaged("the checksum of tensor $name differs") if ($header->{checksums}{$name} // -1) != crc32($content);
        $tensors{$name} = { type => $type, bytes => $content };
        $at = $end;
    }
    damaged('bytes follow the last tensor') if $at != length $bytes;
    return ($header, \%tensors);
}

# A stream may hold many segments of symbols: its state goes on from one to the next.
sub open_stream {
    my ($bytes) = @_;
    damaged('a stream is no sequence of words') if length $bytes < 4 || length($bytes) % 2;
    my ($high, $low, @words) = unpack 'v*', $bytes;
    return { words => \@words, next => 0, state => $high << 16 | $low };
}

sub read_segment {
    my ($stream, $count, $precision, @frequencies) = @_;
    damaged('frequencies do not have the sum of their precision')
        if !(any { $_ == $precision } 8, 10, 12, 14)
        || (any { $_ < 0 } @frequencies)
        || sum0(@frequencies) != 1 << $precision;
    my $start  = 0;
    my @starts = map { $start += $_; $start - $_ } @frequencies;

    # The symbol of each slot, for vec, which reads numbers as pack 'N' writes them.
    my $slots = join '', map { pack('N', $_) x $frequencies[$_] } 0 .. $#frequencies;
    my ($words, $next, $x) = @$stream{qw(words next state)};
    my @symbols;
    for (1 .. $count) {
        my $slot   = $x & (1 << $precision) - 1;
        my $symbol = vec $slots, $slot, 32;
        $x = $frequencies[$symbol] * ($x >> $precision) + $slot - $starts[$symbol];
        if ($x < 1 << 16) {
            damaged('a stream ends too early') if $next == @$words;
            $x = $x << 16 | $words->[$next++];
        }
        push @symbols, $symbol;
    }
    @$stream{qw(next state)} = ($next, $x);
    return @symbols;
}

sub close_stream {
    my ($stream) = @_;
    damaged('a stream does not end as it must')
        if $stream->{state} != 1 << 16 || $stream->{next} != @{ $stream->{words} };
    return;
}

# Coded integers: the length in bits of each one, then the bits below the leading one.
sub read_integers {
    my ($bytes, $count) = @_;
    my ($precision, $kinds, $size) = length $bytes < 6 ? (0, 0, 0) : unpack 'CCV', $bytes;
    my $begin = 6 + 2 * $kinds;
    damaged('coded integers are too short') if $kinds < 1 || $kinds > 65 || $begin + $size > length $bytes;
    my $stream  = open_stream(substr $bytes, $begin, $size);
    my @lengths = read_segment($stream, $count, $precision, unpack "x6 v$kinds", $bytes);
    close_stream($stream);

    my $bits = unpack 'b*', substr $bytes, $begin + $size;
    my ($at, @integers) = 0;
    for my $below (map { $_ - 1 } @lengths) {
        my $zigzag = $below < 0 ? 0 : 1 << $below;
        if ($below > 0) {
            damaged('coded integers are too short') if $at + $below > length $bits;
            $zigzag |= unpack 'Q<', pack 'b64', substr($bits, $at, $below) . '0' x 64;
            $at += $below;
        }
        # This is -(z + 1) / 2 for odd z, without a sum of more than 64 bits.
        push @integers, $zigzag & 1 ? -($zigzag >> 1) - 1 : $zigzag >> 1;
    }
    my $rest = substr $bits, 8 * ceil($at / 8);
    damaged('bytes follow coded integers') if $rest =~ /1/ || length $rest && $count <= 1 << 22;
    return @integers;
}

# Sums wrap around at 64 bits, since two ids may be further apart than that.
sub running_sums {
    use integer;
    my $sum = 0;
    return map { $sum += $_ } @_;
}

sub read_floats {
    my ($tensor, $count) = @_;
    damaged('floats have another type or number')
        if $tensor->{type} !~ /^F(16|32)\z/ || length $tensor->{bytes} != $count * $BYTES{ $tensor->{type} };
    return unpack 'f<*', $tensor->{bytes} if $tensor->{type} eq 'F32';
    return map {
        my ($exponent, $fraction) = ($_ >> 10 & 31, $_ & 1023);
        ($_ >> 15 ? -1 : 1) * ($exponent ? (1024 + $fraction) * 2**($exponent - 25) : $fraction * 2**-24)
    } unpack 'v*', $tensor->{bytes};
}

sub read_model {
    my ($bytes) = @_;
    my ($header, $tensors) = read_container($bytes);
    refused("it is a file of kind '$header->{kind}'") if $header->{kind} ne 'model';
    refused("it has format $header->{format}, and this reader knows format 2") if $header->{format} != 2;
    my ($parts, $shape) = @$header{qw(parts shape)};
    for my $name (sort keys %$parts) {
        refused($REFUSED{$name}) if $REFUSED{$name};
        next if $KNOWN{$name} && ($parts->{$name}{version} // 1) <= 1;
        refused("its part '$name' is unknown") if !$parts->{$name}{optional};
        warn "reader.pl: ignored the unknown part '$name'\n";
    }
    my $sum    = $parts->{stencils};
    my $count  = $sum->{stencils};
    damaged('its shape or the number of its stencils is missing') if any { !is_count($_) } $count, @$shape[0, 1];
    my $tensor = sub { $tensors->{"stencils/$_[0]"} // damaged("tensor stencils/$_[0] is missing") };
    my $get    = sub { read_integers($tensor->($_[0])->{bytes}, $_[1]) };

    # What a sum may expand to is bounded by the bytes of its tensors.
    my $stored = sum0(map { length $tensors->{$_}{bytes} } grep { m{^stencils/} } keys %$tensors);
    my $limit  = sub { damaged('it claims more than its size allows') if $_[0] > $_[1] };
    $limit->($count, max(2**12, $stored));
    $limit->($shape->[0] + $shape->[1], max(2**22, 64 * $stored));
    $limit->($count * ($shape->[0] + $shape->[1]), max(2**24, 1000 * $stored));

    # First the sizes of rows, then those of columns, as labels come.
    my @sizes = $get->('sizes', $sum->{alike} ? 2 : 2 * $count);
    @sizes = (($sizes[0]) x $count, ($sizes[1]) x $count) if $sum->{alike};
    damaged('a stencil has no clusters') if any { $_ < 1 } @sizes;
    my @lengths = map { $sizes[$_] * $sizes[$count + $_] } 0 .. $count - 1;
    $limit->(sum0(@lengths), max(2**22, 64 * $stored));
    my @templates = read_templates(\@lengths, $tensors, $get);
    my @labels    = read_labels(\@sizes, [($shape->[0]) x $count, ($shape->[1]) x $count], $sum, $tensor, $get);

    my @counts = @{ $sum->{unseen} // [0, 0] };
    $limit->($counts[$_], $shape->[$_]) for 0, 1;
    my @steps = sum0(@counts) ? $get->('unseen', sum0(@counts)) : ();
    my (@unseen, @effects);
    for my $side (0, 1) {
        $unseen[$side] = [running_sums(splice @steps, 0, $counts[$side])];
        damaged('a position is beyond the end') if any { $_ < 0 || $_ >= $shape->[$side] } @{ $unseen[$side] };
        my $effects = $tensors->{"stencils/$SIDES[$side]_effects"} // next;
        $effects[$side] = [read_floats($effects, $shape->[$side])];
        $effects[$side][$_] = 0 for @{ $unseen[$side] };
    }
    my @stencils;
    for my $s (0 .. $count - 1) {
        my @size = @sizes[$s, $count + $s];
        my @by   = @labels[$s, $count + $s];
        # The label after the last one is that of the average row or column.
        for my $side (0, 1) { vec($by[$side], $_, 32) = $size[$side] for @{ $unseen[$side] } }
        my @weights  = map { weigh($by[$_], $size[$_]) } 0, 1;
        push @stencils, { size => \@size, labels => \@by, template => add_averages($templates[$s], @weights) };
    }
    return { header => $header, tensors => $tensors, stencils => \@stencils, effects => \@effects };
}

# Return the entries of each template, row by row.
sub read_templates {
    my ($lengths, $tensors, $get) = @_;
    my @steps = (0) x @$lengths;
    @steps = read_floats($tensors->{'stencils/steps'}, scalar @steps) if $tensors->{'stencils/steps'};
    my ($plain, $quantised) = (0, 0);
    for (0 .. $#steps) { ($steps[$_] > 0 ? $quantised : $plain) += $lengths->[$_] }
    my @whole = $quantised ? $get->('whole', $quantised) : ();

    # Whatever has no step comes as floats, or as mantissas and an exponent for each of those stencils.
    my (@plain, @exponents);
    if (my $floats = $tensors->{'stencils/templates'}) {
        @plain = read_floats($floats, $plain);
    } elsif ($plain) {
        @plain     = $get->('mantissas', $plain);
        @exponents = running_sums($get->('exponents', scalar grep { $_ <= 0 } @steps));
    }
    my @templates;
    for my $s (0 .. $#steps) {
        my $unit = $steps[$s] > 0 ? $steps[$s] : 2**(shift @exponents // 0);
        my @entries = splice @{ $steps[$s] > 0 ? \@whole : \@plain }, 0, $lengths->[$s];
        push @templates, [unpack 'f*', pack 'f*', map { $unit * $_ } @entries];
    }
    return @templates;
}

# Return each array of labels as a string of 32-bit numbers: arrays of Perl would take several times the memory.
sub read_labels {
    my ($sizes, $items, $sum, $tensor, $get) = @_;
    my $bytes  = $tensor->('labels')->{bytes};
    my @models = $sum->{coded} ? $get->('models', @$sizes + sum0(@$sizes)) : ();
    my @precisions = splice @models, 0, $sum->{coded} ? scalar @$sizes : 0;
    my $stream = $sum->{coded} ? open_stream($bytes) : undef;
    my ($at, @labels) = 0;
    for my $s (0 .. $#$sizes) {
        my ($k, $n) = ($sizes->[$s], $items->[$s]);
        if ($stream) {
            my ($precision, @frequencies) = ($precisions[$s], splice @models, 0, $k);
            ($precision, @frequencies) = (14, map { int(2**14 / $k) + ($_ < 2**14 % $k) } 0 .. $k - 1) if !$precision;
            push @labels, pack 'N*', read_segment($stream, $n, $precision, @frequencies);
            next;
        }
        my $width = $k > 1 ? length sprintf '%b', $k - 1 : 0;
        my $size  = ceil($n * $width / 8);
        damaged('labels are too short') if $at + $size > length $bytes;
        my $bits = reverse unpack 'b*', substr $bytes, $at, $size;
        my @codes = $width ? map { oct '0b' . substr $bits, -$width * $_, $width } 1 .. $n : (0) x $n;
        damaged('a label has no cluster') if any { $_ >= $k } @codes;
        push @labels, pack 'N*', @codes;
        $at += $size;
    }
    if ($stream) { close_stream($stream) }
    elsif ($at != length $bytes) { damaged('bytes follow the labels') }
    return @labels;
}

# Return the share of each label among the rows (columns) that were seen; equal shares if none was.
sub weigh {
    my ($labels, $k) = @_;
    my @counts = (0) x ($k + 1);
    $counts[$_]++ for unpack 'N*', $labels;
    pop @counts;
    my $seen = sum0(@counts);
    return [map { $seen ? $_ / $seen : 1 / $k } @counts];
}

# Add the average row, then the average column of all rows, that one included; return the rows.
sub add_averages {
    my ($entries, $rows, $cols) = @_;
    my @template = map { [splice @$entries, 0, scalar @$cols] } @$rows;
    push @template, [map { my $j = $_; sum0(map { $rows->[$_] * $template[$_][$j] } 0 .. $#$rows) } 0 .. $#$cols];
    for my $row (@template) { push @$row, sum0(map { $cols->[$_] * $row->[$_] } 0 .. $#$cols) }
    return \@template;
}

sub predict {
    my ($model, @at) = @_;
    my ($shape, $parts) = @{ $model->{header} }{qw(shape parts)};
    my @known = map { $at[$_] >= 0 && $at[$_] < $shape->[$_] } 0, 1;
    my $x     = $parts->{stencils}{offset};
    for my $stencil (@{ $model->{stencils} }) {
        my ($i, $j) = map { $known[$_] ? vec $stencil->{labels}[$_], $at[$_], 32 : $stencil->{size}[$_] } 0, 1;
        $x += $stencil->{template}[$i][$j];
    }
    for (0, 1) { $x += $model->{effects}[$_][$at[$_]] if $known[$_] && $model->{effects}[$_] }

    if (my $scale = $parts->{scale}) {
        my ($values, $cuts) = @$scale{qw(values mean_cuts)};
        my @shares = map { erfc(($_ - $x) / ($scale->{mean_spread} * sqrt 2)) / 2 } @$cuts;
        $x = $values->[0] + sum0(map { ($values->[$_ + 1] - $values->[$_]) * $shares[$_] } 0 .. $#shares);
    }
    my ($clip, $range) = @{ $parts->{values} }{qw(clip range)};
    my ($low, $high) = @{ (ref $clip eq 'ARRAY' ? $clip : $clip ? $range : undef) // return $x };
    return $x < $low ? $low : $x > $high ? $high : $x;
}

# Return the position of each id, or nothing where the numbers are positions.
sub read_ids {
    my ($model, $side) = @_;
    my $kind = $model->{header}{parts}{ids}{ $SIDES[$side] } // 'positions';
    warn "reader.pl: $SIDES[$side] ids are compressed by Zstandard, which no core module reads: give positions\n"
        if $kind eq 'json';
    return undef if $kind ne 'integers';
    my $tensor = $model->{tensors}{"ids/$SIDES[$side]"} // damaged('its ids are missing');
    my @ids    = running_sums(read_integers($tensor->{bytes}, $model->{header}{shape}[$side]));
    return { map { $ids[$_] => $_ } 0 .. $#ids };
}

sub main {
    my %option;
    GetOptions(\%option, 'ids', 'info') && @ARGV == 1 or die "usage: reader.pl [--ids | --info] MODEL < PAIRS\n";
    open my $file, '<:raw', $ARGV[0] or die "cannot open $ARGV[0]: $!\n";
    my $model = read_model(do { local $/; <$file> } // '');
    if ($option{info}) {
        my @sizes = map { join 'x', @{ $_->{size} } } @{ $model->{stencils} };
        printf "shape %dx%d\nstencils %d\ntemplates %s\n", @{ $model->{header}{shape} }, scalar @sizes, "@sizes";
        return;
    }
    my @ids = $option{ids} ? map { read_ids($model, $_) } 0, 1 : ();
    while (my $line = <STDIN>) {
        my @at = $line =~ /^\s*(-?\d+)\s+(-?\d+)\s*$/ or die "line $. is no pair of numbers\n";
        for (0, 1) { $at[$_] = $ids[$_]{ $at[$_] } // -1 if $ids[$_] }
        printf "%.9g\n", predict($model, @at);
    }
    return;
}

# Errors of Perl itself, such as a field of another type, name a line of this file: the model is what is wrong.
if (!eval { main(); 1 }) {
    my ($reason) = split /\n/, $@;
    $reason =~ s/^(.*?) at \S+ line \d+.*/damaged model file: $1/;
    print STDERR "reader.pl: $reason\n";
    exit 1;
}
