# Runs a query as a Rails application with the database.yml of the current directory does: it is ERB that yields YAML.
require 'active_record'
require 'erb'
require 'tmpdir'
require 'yaml'

settings = YAML.safe_load(ERB.new(File.read('database.yml')).result)
ActiveRecord::Base.establish_connection(settings['production'])
puts ActiveRecord::Base.connection.select_rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1]
